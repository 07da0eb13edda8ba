import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from entrometer.runs import (
    IncompleteDirectory,
    checkpoints,
    is_sealed_file,
    newest_complete,
    present,
    publish,
    seal,
    verified,
    verify,
)

ABOUT = {"processes": 2, "window": [1, 2]}
FILES = ["model.bin", "empty", "shards/0.bin", "shards/deep/1.bin"]

KILLED = """
import os, signal, sys
from pathlib import Path
from entrometer.runs import publish, seal
stage, destination = Path(sys.argv[1]), Path(sys.argv[2])
{where}
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def filled(directory: Path, content: bytes = b"weights") -> Path:
    for i, name in enumerate(FILES):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "empty" else content * 3 + bytes([i]))
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Checkpoints 2 and 10 of a run, each with a table beside it."""
    (tmp_path / "updates").mkdir()
    for step in (2, 10):
        table = tmp_path / "updates" / f"{step}.parquet"
        table.write_bytes(b"rows" * step)
        directory = filled(tmp_path / f"checkpoint-{step}")
        seal(directory, beside=[table], about=ABOUT | {"step": step})
    return tmp_path


def test_what_was_sealed_verifies_and_tells_what_it_is(run):
    assert verify(run / "checkpoint-10") == ABOUT | {"step": 10}
    manifest = json.loads((run / "checkpoint-10" / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["../updates/10.parquet", *sorted(FILES)]


def test_sealing_again_lists_what_is_there_now(run):
    directory = run / "checkpoint-10"
    (directory / "model.bin").unlink()
    (directory / "added").write_bytes(b"new")
    seal(directory)
    assert verify(directory) == {}
    (directory / "added").unlink()
    with pytest.raises(IncompleteDirectory, match="added"):
        verify(directory)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in [*FILES, "../updates/10.parquet"]
        for damage in ("deleted", "cut", "longer", "flipped", "replaced")
        # An empty file has nothing to cut or to flip.
        if name != "empty" or damage not in ("cut", "flipped")
    ],
)
def test_a_damaged_file_is_refused_by_name(run, name, damage):
    path = run / "checkpoint-10" / name
    content = path.read_bytes()
    if damage == "deleted":
        path.unlink()
    elif damage == "replaced":
        path.unlink()
        path.mkdir()
    elif damage == "longer":
        path.write_bytes(content + b"\0")
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(IncompleteDirectory) as caught:
        verify(run / "checkpoint-10")
    assert name in str(caught.value)
    assert "checkpoint-10" in str(caught.value)
    assert verify(run / "checkpoint-2")["step"] == 2


def test_every_flipped_byte_of_a_manifest_is_seen(run):
    path = run / "checkpoint-2" / "manifest.json"
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :])
        with pytest.raises(IncompleteDirectory, match="manifest"):
            verify(path.parent)


def test_every_cut_of_a_manifest_is_seen(run):
    path = run / "checkpoint-2" / "manifest.json"
    whole = path.read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        with pytest.raises(IncompleteDirectory, match="manifest"):
            verify(path.parent)


@pytest.mark.parametrize("text", ["[]", "7", "null", "{}", "[" * 100_000])
def test_a_manifest_of_something_else_is_refused(run, text):
    path = run / "checkpoint-2" / "manifest.json"
    path.write_text(text)
    with pytest.raises(IncompleteDirectory, match=r"manifest\.json"):
        verify(path.parent)


def test_a_directory_without_a_manifest_was_never_finished(tmp_path):
    filled(tmp_path / "checkpoint-1")
    with pytest.raises(IncompleteDirectory, match="never finished"):
        verify(tmp_path / "checkpoint-1")


def test_the_manifest_comes_last_and_after_what_it_lists_is_on_disk(
    tmp_path, monkeypatch
):
    directory = filled(tmp_path / "checkpoint-1")
    flushed = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def recorded_replace(source, target):
        flushed.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    seal(directory)
    before = set(flushed[: flushed.index("manifest.json")])
    folders = {(directory / name).parent for name in FILES}
    for path in [*(directory / name for name in FILES), *folders]:
        assert path.stat().st_ino in before


def test_files_beside_are_found_from_where_it_will_be_published(tmp_path):
    """Sealed two levels down, published one up: the relative path is the final one."""
    table = tmp_path / "run" / "updates" / "1.parquet"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"rows")
    stage = filled(tmp_path / "run" / ".saving" / "checkpoint-1")
    destination = tmp_path / "run" / "checkpoint-1"
    seal(stage, beside=[table], destination=destination)
    publish(stage, destination)
    verify(destination)
    # Relative, so that a run may be moved.
    shutil.move(tmp_path / "run", tmp_path / "moved")
    verify(tmp_path / "moved" / "checkpoint-1")
    (tmp_path / "moved" / "updates" / "1.parquet").write_bytes(b"sown")
    with pytest.raises(IncompleteDirectory, match=r"updates/1\.parquet"):
        verify(tmp_path / "moved" / "checkpoint-1")


def test_publishing_replaces_what_had_the_name(run):
    stage = filled(run / ".saving" / "checkpoint-10", b"better")
    (stage / "empty").unlink()
    seal(stage, about={"step": "new"})
    publish(stage, run / "checkpoint-10")
    assert verify(run / "checkpoint-10") == {"step": "new"}
    assert not (run / "checkpoint-10" / "empty").exists()
    assert sorted(p.name for p in run.iterdir()) == [
        ".saving",
        "checkpoint-10",
        "checkpoint-2",
        "updates",
    ]


@pytest.mark.parametrize(
    "where",
    [
        f"{KILL}; seal(stage)",
        f"seal(stage); {KILL}; publish(stage, destination)",
    ],
)
def test_a_kill_before_publishing_leaves_the_older(run, where):
    stage = filled(run / ".saving" / "checkpoint-11", b"newer")
    code = KILLED.format(where=where)
    done = subprocess.run(
        [sys.executable, "-c", code, stage, run / "checkpoint-11"], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert newest_complete(run) == (run / "checkpoint-10", [])


def test_checkpoints_are_in_the_order_of_their_numbers(run):
    for name in ("checkpoint-x", "checkpoint-3.old", ".checkpoint-4", "best"):
        (run / name).mkdir()
    (run / "checkpoint-5").write_text("a file")
    assert checkpoints(run) == [
        (2, run / "checkpoint-2"),
        (10, run / "checkpoint-10"),
    ]


def test_the_newest_complete_is_found_with_the_reasons_against_later_ones(run):
    (run / "checkpoint-10" / "model.bin").unlink()
    (run / "checkpoint-11").mkdir()
    newest, refused = newest_complete(run)
    assert newest == run / "checkpoint-2"
    assert [str(error).split(":")[0] for error in refused] == [
        str(run / "checkpoint-11"),
        str(run / "checkpoint-10"),
    ]
    assert "model.bin" in str(refused[1])


def test_a_run_without_checkpoints_has_no_newest(tmp_path):
    assert newest_complete(tmp_path) == (None, [])
    assert newest_complete(tmp_path / "absent") == (None, [])


def test_a_directory_without_a_manifest_is_unsealed(run):
    assert verified(run / "checkpoint-2") == ABOUT | {"step": 2}
    (run / "checkpoint-2" / "manifest.json").unlink()
    assert verified(run / "checkpoint-2") is None


def test_a_checkpoint_that_was_copied_alone_is_compared_alone(run):
    (run / "updates" / "10.parquet").unlink()
    assert verified(run / "checkpoint-10", beside=False) is not None
    with pytest.raises(IncompleteDirectory, match=r"10\.parquet"):
        verified(run / "checkpoint-10")


def test_single_files_are_compared_if_they_are_listed(run):
    directory = run / "checkpoint-10"
    (directory / "model.bin").write_bytes(b"other")
    assert verify(directory, names=["empty"])["step"] == 10
    for name in ("model.bin", "unheard"):
        with pytest.raises(IncompleteDirectory, match=name):
            verify(directory, names=[name])


def test_only_some_files_are_sealed(tmp_path):
    filled(tmp_path)
    seal(tmp_path, only=["model.bin"])
    (tmp_path / "empty").unlink()
    verify(tmp_path)


def test_a_file_beside_is_compared_with_the_checkpoint_that_lists_it(run):
    path = run / "updates" / "10.parquet"
    assert is_sealed_file(path)
    (run / "updates" / "11.parquet").write_bytes(b"rows")
    assert not is_sealed_file(run / "updates" / "11.parquet")
    assert present(run / "updates" / "11.parquet")
    assert not present(run / "updates" / "12.parquet")
    path.write_bytes((run / "updates" / "2.parquet").read_bytes())
    with pytest.raises(IncompleteDirectory, match=r"checkpoint-10.*10\.parquet"):
        is_sealed_file(path)
    path.unlink()
    with pytest.raises(IncompleteDirectory, match=r"10\.parquet, which is missing"):
        present(path)


def test_a_damaged_manifest_may_be_the_one_that_lists_a_file(run):
    (run / "checkpoint-10" / "manifest.json").write_text("{}")
    assert is_sealed_file(run / "updates" / "2.parquet")
    with pytest.raises(IncompleteDirectory, match=r"checkpoint-10/manifest\.json"):
        is_sealed_file(run / "updates" / "10.parquet")
