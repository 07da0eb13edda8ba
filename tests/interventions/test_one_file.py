"""A new remedy is one new file in the package, and nothing else."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import entrometer

PACKAGE = Path(entrometer.__file__).parent

REMEDY = '''
"""Rare: unlikely tokens weigh less."""

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register("rare", by_token=True, strength="weight", strengths=(0.25, 0.5, 0.75))
def rare(tables: TokenTables, *, weight: float = 0.5) -> PerToken:
    return dr_grpo(tables) * (1 - (1 - weight) * (tables.p < 0.1))
'''

# One response of two tokens with p = 0.5 and p = 0.05, advantage 1, ratio 1.
USE = """
import json, torch
from entrometer import interventions
from entrometer.interventions import TokenTables, intervention, intervention_names

S = torch.tensor([[0.5, 0.05]], dtype=torch.float64).log()
ones = torch.ones_like(S)
tables = TokenTables(
    S=S, S_old=S, H=ones, A=ones, mask=ones.bool(), group=torch.zeros(1).long(),
    length_limit=2,
)
remedy = intervention("rare").remedy
print(json.dumps({
    "listed": "rare" in intervention_names() and "rare" in interventions.__all__,
    "settings": remedy.defaults,
    "text": str(intervention("rare:weight=0.25")),
    "sweep": [
        intervention(f"rare:{remedy.strength}={value}").coefficients(tables)
        .alpha.tolist() for value in remedy.strengths
    ],
    "user code": remedy.code,
}))
"""


def changed_files(before: Path, after: Path) -> list[str]:
    """Files of `after` that are new or different, and files that are gone."""
    names = {
        str(file.relative_to(root))
        for root in (before, after)
        for file in root.rglob("*.py")
    }
    _, different, missing = filecmp.cmpfiles(before, after, names, shallow=False)
    return sorted(different + missing)


def run_with(package: Path, code: str) -> dict:
    """What `code` prints as JSON, with this copy of the package."""
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert not out.returncode, out.stderr
    return json.loads(out.stdout)


def copied(folder: Path) -> Path:
    """A copy of the installed package's source."""
    only_source = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, folder / "entrometer", ignore=only_source)


def test_a_new_remedy_is_one_new_file(tmp_path):
    package = copied(tmp_path)
    (package / "interventions" / "rare.py").write_text(REMEDY)
    assert changed_files(PACKAGE, package) == ["interventions/rare.py"]
    assert run_with(package, USE) == {
        "listed": True,
        "settings": {"weight": 0.5},
        "text": "rare:weight=0.25",
        # Dr-GRPO's α is A/(BL) = 0.5; the rare token has `weight` times that.
        "sweep": [[[0.5, 0.125]], [[0.5, 0.25]], [[0.5, 0.375]]],
        "user code": "",
    }
