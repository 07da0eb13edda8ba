import subprocess
from pathlib import Path

from entrometer.runs import about


def test_versions_and_machine_are_named():
    found = about.about_machine()
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
    clean = about._commit(tmp_path)
    (tmp_path / "a").write_text("2")
    assert len(clean) == 40
    assert about._commit(tmp_path) == clean + "+"


def test_outside_of_a_clone_there_is_none():
    assert about._commit(Path("/")) == ""
