import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from entrometer.runs import (
    DamagedFile,
    RunInUse,
    apply_umask,
    atomic,
    atomic_write,
    hold,
    leave_to_leader,
    seal,
    verify,
    write_json,
    writes_results,
)
from entrometer.runs.atomic import NotWritten, naming_full_disk

KILLED = """
import os, signal, sys
from entrometer.runs import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half of the n")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_new_content_replaces_the_old(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["table"]


def test_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.write(b"new") and file.write("not bytes")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table"]


def test_kill_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    left = [name for name in os.listdir(tmp_path) if name != "table"]
    assert len(left) == 1
    assert left[0].startswith(".table.")


def test_content_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    """File flushed, then renamed, then the directory flushed: the only safe order."""
    path = tmp_path / "table"
    calls = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor):
        calls.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def recorded_replace(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    with atomic_write(path) as file:
        file.write(b"new")
    assert calls == [path.stat().st_ino, "rename", tmp_path.stat().st_ino]


def test_fsync_sees_the_whole_content(tmp_path, monkeypatch):
    """What is still in Python's buffer would not be on disk after a power cut."""
    sizes = []

    def recorded_fsync(descriptor):
        sizes.append(os.fstat(descriptor).st_size)

    with atomic_write(tmp_path / "table") as file:
        file.write(b"new")
        monkeypatch.setattr(os, "fsync", recorded_fsync)
    assert sizes[0] == 3


def test_failed_flush_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table"]


def test_a_file_that_a_library_put_in_its_place_is_synced_and_readable(
    tmp_path, monkeypatch
):
    """As safetensors does: written beside, closed to others, renamed."""
    synced = []
    fsync = os.fsync

    def recorded_fsync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    path, other = tmp_path / "table", tmp_path / "other"
    with atomic_write(path) as file:
        other.touch(mode=0o600)
        other.rename(file.name)
    assert path.stat().st_ino in synced
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_of_a_directory_get_the_mode_that_the_umask_gives(tmp_path, mask):
    (tmp_path / "folder").mkdir()
    (tmp_path / "closed").touch(mode=0o600)
    (tmp_path / "folder" / "open").touch(mode=0o666)
    before = os.umask(mask)
    try:
        apply_umask(tmp_path)
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    files = (tmp_path / "closed", tmp_path / "folder" / "open")
    assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o666 & ~mask}


def test_permissions_are_those_of_any_new_file(tmp_path):
    """Others of a cluster can read it, where a file of `tempfile` is its owner's."""
    with atomic_write(tmp_path / "atomic"):
        pass
    (tmp_path / "plain").touch()
    modes = {p.stat().st_mode for p in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError(
            "[enforce fail at inline_container.cc:664] . unexpected pos 5 vs 4"
        ),
        RuntimeError(
            "PytorchStreamWriter failed writing file data/0: file write failed"
        ),
        ValueError("Error while serializing: I/O error: File too large (os error 27)"),
    ],
)
def test_a_full_disk_is_told_with_the_file(tmp_path, error):
    (tmp_path / "old").write_bytes(b"")
    os.utime(tmp_path / "old", (1, 1))
    (tmp_path / "optimizer.pt").write_bytes(b"half")
    said = r"optimizer\.pt: could not be written"
    with pytest.raises(NotWritten, match=said) as told, naming_full_disk(tmp_path):
        raise error
    assert "MiB left" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), DamagedFile("a")])
def test_any_other_error_is_not_the_disks(tmp_path, error):
    with pytest.raises(type(error), match=str(error)), naming_full_disk(tmp_path):
        raise error


HOLDER = """
import sys, time
from pathlib import Path
from entrometer.runs import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_another_process_is_named_by_its_pid_and_killed_frees_the_run(tmp_path):
    run = tmp_path / "run"
    arguments = [sys.executable, "-c", HOLDER, str(run)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        for _ in range(2):
            with (
                pytest.raises(RunInUse, match=f"process {holder.pid} holds"),
                hold(run),
            ):
                raise AssertionError("two processes hold it")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with hold(run):
        assert (run / ".lock").read_text() == f"{os.getpid()}\n"


def test_an_error_frees_the_run(tmp_path):
    with pytest.raises(KeyError), hold(tmp_path):
        raise KeyError
    with hold(tmp_path):
        pass


def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    with hold(tmp_path):
        pass
    (warned,) = caplog.records
    assert "no lock on this file system" in warned.getMessage()


def test_the_lock_is_no_part_of_what_is_sealed(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with hold(tmp_path):
        seal(tmp_path)
    with hold(tmp_path):
        verify(tmp_path)


def test_what_is_left_to_the_leader_is_dropped_but_not_what_is_the_members_own(
    tmp_path,
):
    (tmp_path / "result").write_text("the leader's")
    with leave_to_leader():
        with atomic_write(tmp_path / "result") as file:
            file.write(b"a member's")
        with atomic_write(tmp_path / "shard", own=True) as file:
            file.write(b"a member's")
        write_json(tmp_path / "other", {})
        assert not writes_results()
    assert writes_results()
    assert (tmp_path / "result").read_text() == "the leader's"
    assert (tmp_path / "shard").read_text() == "a member's"
    assert {path.name for path in tmp_path.iterdir()} == {"result", "shard"}
