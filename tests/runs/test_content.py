import hashlib
import os

import pytest

from entrometer.runs import content
from entrometer.runs.content import content_key, file_sha256


def test_the_order_of_keys_has_no_say():
    assert content_key({"a": 1, "b": [2]}) == content_key({"b": [2], "a": 1})


def test_every_digit_counts():
    assert content_key({"eta": 1e-3}) != content_key({"eta": 1.0000000000000002e-3})


def test_what_is_no_number_has_no_name():
    with pytest.raises(ValueError, match="JSON"):
        content_key({"eta": float("nan")})


def test_a_file_is_known_by_its_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    assert file_sha256(path) == hashlib.sha256(b"content").hexdigest()


def test_a_settled_file_is_hashed_once_and_a_changed_one_anew(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    hashed = []
    digest = hashlib.file_digest

    def spy(file, name):
        hashed.append(file.name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    # As if the clock had gone on since the file was written.
    monkeypatch.setattr(content, "_SETTLED_NS", -1)
    assert file_sha256(path) == file_sha256(path)
    assert len(hashed) == 1
    times = path.stat()
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_sha256(path) == hashlib.sha256(b"CONTENT").hexdigest()


def test_a_file_that_was_just_written_is_not_remembered(tmp_path):
    path = tmp_path / "a"
    for number in range(50):
        # Of one size, and faster than the clock of a file system.
        written = f"{number:04d}".encode()
        path.write_bytes(written)
        assert file_sha256(path) == hashlib.sha256(written).hexdigest()
