"""Files of others: regular ones only, JSON of bounded size and depth."""

import json
import os

import pytest

from entrometer.runs import DamagedFile
from entrometer.runs.content import file_sha256
from entrometer.runs.untrusted import open_regular, read_json


def test_an_object_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, {"b": null}]}')
    assert read_json(path) == {"a": [1, {"b": None}]}


def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "blob").write_text("{}")
    (tmp_path / "config.json").symlink_to("blob")
    assert read_json(tmp_path / "config.json") == {}


@pytest.mark.parametrize("read", [open_regular, read_json, file_sha256])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, read, kind):
    """Opening a pipe would wait for a writer; a device has no end."""
    path = tmp_path / "config.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(DamagedFile, match=r"config\.json: expected a regular file"):
        read(path)


def test_an_absent_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected JSON"),
        ("{", "expected JSON"),
        ("[]", "expected a JSON object, got a list"),
        ('{"a": ' + "9" * 5000 + "}", "expected JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "RecursionError"),
        ('{"a":' * 65 + "1" + "}" * 65, "at most 64 levels deep"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "at most 64 levels deep"),
    ],
)
def test_anything_else_is_refused_by_name(tmp_path, text, said):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"a\.json: ") as caught:
        read_json(tmp_path / "a.json")
    assert said in str(caught.value)


def test_nesting_up_to_the_limit_is_read(tmp_path):
    text = '{"a":' * 64 + "1" + "}" * 64
    (tmp_path / "a.json").write_text(text)
    assert read_json(tmp_path / "a.json") == json.loads(text)


def test_size_is_bounded_before_it_is_parsed(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": "b"}')
    assert read_json(path, limit=10) == {"a": "b"}
    with pytest.raises(DamagedFile, match=r"expected at most .* MiB of JSON"):
        read_json(path, limit=9)
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DamagedFile, match="expected at most 32 MiB"):
        read_json(path)
