"""Names of remedies read from their files, against the registry."""

import subprocess
import sys

import pytest

from entrometer.api import remedies
from entrometer.errors import MissingKey
from entrometer.interventions import intervention, intervention_names, registry
from entrometer.interventions.registry import user_remedies

MISTAKES = ["entropy-bonsu", "entropy-bonus:alhpa=1", "clip-v:mosst=1,micro_batch=4"]


def test_files_hold_the_names_and_settings_of_the_registry():
    built_in = set(intervention_names()) - set(user_remedies())
    assert dict(remedies._written()) == {
        name: [*dict(intervention(name).settings), "micro_batch"] for name in built_in
    }


@pytest.mark.parametrize("text", MISTAKES)
def test_the_error_is_the_registrys(text, monkeypatch):
    for name in user_remedies():
        monkeypatch.delitem(registry._REMEDIES, name)
    with pytest.raises(MissingKey) as expected:
        intervention(text)
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(MissingKey) as error:
        remedies.require_names(("grpo", text))
    assert str(error.value) == str(expected.value)


def test_names_are_read_without_torch():
    code = (
        "import sys; from entrometer.api.remedies import require_names; "
        "require_names(('entropy-bonus:alpha=0.1',)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
