import hashlib
import importlib
import os
import sys

import pytest

from entrometer.runs import content
from entrometer.runs.content import code_key, content_key, file_sha256, own_modules


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


FILES = {
    "mine": """
import helpers
from helpers import shift
from math import sqrt
import re
import numpy as np
PATTERN = re.compile("a+")
TABLE = np.arange(3)
WEIGHT = 0.5
LIMITS = {"low": 0.1, "names": {"a", "b"}}
def loss(x, *, scale=1.0):
    # A comment.
    found = TABLE[PATTERN.groups] + len(LIMITS) + sqrt(4)
    return scale * WEIGHT * shift(x) + helpers.offset() + found
class Base:
    level = 1
    def score(self, x):
        return x
class Judge(Base):
    @property
    def name(self):
        return "judge"
    def score(self, x):
        return super().score(x) + self.level
def unrelated():
    return 1
""",
    "helpers": """
STEP = 3
def shift(x):
    return x + STEP
def offset():
    return 7
def other():
    return 1
""",
}


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Keys of the function and of the class after an edit, in a fresh import."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(file="mine", old="", new=""):
        for name, text in FILES.items():
            edited = text.replace(old, new) if name == file and old else text
            assert not old or name != file or edited != text
            (tmp_path / f"{name}.py").write_text(edited)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        mine = importlib.import_module("mine")
        return code_key(mine.loss), code_key(mine.Judge)

    yield made
    for name in FILES:
        sys.modules.pop(name, None)


def test_the_same_code_has_the_same_key(keys):
    assert keys() == keys()
    assert keys() == keys("mine", "# A comment.", "# Another, with\n    # a line more.")
    assert keys() == keys("mine", "def unrelated():\n    return 1", "")
    assert keys() == keys("helpers", "def other():\n    return 1", "")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("mine", "WEIGHT = 0.5", "WEIGHT = 0.6"),
        ("mine", '"low": 0.1', '"low": 0.2'),
        ("mine", '{"a", "b"}', '{"a", "c"}'),
        ("mine", "scale=1.0", "scale=2.0"),
        ("mine", 'compile("a+")', 'compile("b+")'),
        ("mine", "arange(3)", "arange(3)[::-1]"),
        ("mine", "scale * WEIGHT", "scale + WEIGHT"),
        ("helpers", "STEP = 3", "STEP = 4"),
        ("helpers", "return x + STEP", "return x - STEP"),
        ("helpers", "return 7", "return 8"),
    ],
)
def test_an_edit_of_whatever_a_function_uses_is_another_key(keys, file, old, new):
    function, judge = keys()
    assert keys(file, old, new)[0] != function
    assert keys(file, old, new)[1] == judge


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("level = 1", "level = 2"),
        ('return "judge"', 'return "other"'),
        ("return x\n", "return 2 * x\n"),
        ("+ self.level", "- self.level"),
    ],
)
def test_an_edit_of_a_class_or_its_base_is_another_key(keys, old, new):
    assert keys("mine", old, new)[1] != keys()[1]


def test_what_a_function_is_closed_over_is_part_of_its_key():
    def made(weight):
        return lambda x: weight * x

    assert code_key(made(1.0)) == code_key(made(1.0)) != code_key(made(2.0))


def test_code_of_the_package_has_no_key():
    assert code_key(content_key, None) == ""


def test_own_modules_are_those_beside_the_definition(keys):
    keys()
    names = {module.__name__ for module in own_modules(sys.modules["mine"].loss)}
    assert {"mine", "helpers"} <= names
    assert not names & {"math", "numpy", "pytest", "entrometer.runs", "__main__"}
