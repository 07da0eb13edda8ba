import hashlib

import pytest

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
