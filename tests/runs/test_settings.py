import json
import subprocess
from pathlib import Path

import pytest

from entrometer.errors import InvalidValue
from entrometer.runs import IncompleteDirectory, settings
from entrometer.runs.settings import difference, save_settings, sealed_settings

SETTINGS = {"seed": 0, "adapter": {"rank": 8}, "betas": (0.9, 0.999)}


def test_settings_come_back_with_what_was_sealed(tmp_path):
    run = tmp_path / "run"
    save_settings(run, SETTINGS, {"kind": "training"})
    found = sealed_settings(run)
    assert found == {
        "kind": "training",
        "settings": {"seed": 0, "adapter": {"rank": 8}, "betas": [0.9, 0.999]},
    }
    save_settings(run, SETTINGS | {"seed": 1}, {"kind": "training"})
    assert sealed_settings(run)["settings"]["seed"] == 1


def test_a_run_without_a_manifest_is_unsealed(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert sealed_settings(tmp_path) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 7}, "seed was 0 when the run started, is 7 now"),
        ({"adapter": {"rank": 4}}, "adapter.rank was 8 .* is 4 now"),
        ({"more": 1}, "more was None .* is 1 now"),
    ],
)
def test_an_edited_setting_is_named_with_both_values(tmp_path, change, said):
    save_settings(tmp_path, SETTINGS, {})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidValue, match=said):
        sealed_settings(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"[" * 100_000])
def test_a_damaged_config_is_refused_by_name(tmp_path, content):
    save_settings(tmp_path, SETTINGS, {})
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(IncompleteDirectory, match=r"config\.json"):
        sealed_settings(tmp_path)


def test_the_same_settings_have_no_difference():
    assert difference({"a": {"b": 1}}, {"a": {"b": 1}}) is None


def test_versions_and_machine_are_named():
    found = settings.about_machine()
    assert {"python", "numpy", "torch", "entrometer"} <= set(found["versions"])
    assert found["machine"]["cores"] >= 1


def test_the_commit_is_that_of_the_clone_and_marks_changes(tmp_path):
    def git(*command):
        settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *settings, *command], check=True)

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "one")
    clean = settings._commit(tmp_path)
    (tmp_path / "a").write_text("2")
    assert len(clean) == 40
    assert settings._commit(tmp_path) == clean + "+"


def test_outside_of_a_clone_there_is_none():
    assert settings._commit(Path("/")) == ""
