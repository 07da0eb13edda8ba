"""Names made from content, so that a result is never taken for another."""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from entrometer.runs.untrusted import open_regular


def content_key(content: Mapping[str, Any]) -> str:
    """Name of what JSON can hold: its sha256.

    The order of the keys has no say; numbers count with every digit.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
