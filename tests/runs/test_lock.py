import errno
import os
import signal
import subprocess
import sys

import pytest

from entrometer.runs import RunInUse, hold, lock, seal, verify

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

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
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
