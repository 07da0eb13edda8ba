"""Take private paths out of settings and sentences that are to be shared."""

import re
from pathlib import PurePosixPath
from typing import Any, TypeVar

Content = TypeVar("Content")

# What begins like a path, inside a sentence. Not after a word, a colon or a slash:
# `https://host/page` and `nats/token` are none.
_IN_TEXT = re.compile(r"(?<![\w:/.~)\]])(?:~|\.{1,2})?/[^\s'\"`,;()<>|\[\]]*[\w-]")
_CHECKPOINT = re.compile(r"checkpoint-\d+")


def without_paths(content: Content) -> tuple[Content, int]:
    """Return content with only the last part of each path, and the number of paths.

    The folder of a checkpoint names its training, so of `/data/me/warm/checkpoint-4`
    `warm/checkpoint-4` stays. A value that is a path as a whole is also replaced where
    a sentence quotes it, which finds paths with spaces.
    """
    found = {s for s in _strings(content) if _is_path(s)}
    # One part, such as `/` alone, also stands where no path is quoted.
    quoted = (path for path in found if len(PurePosixPath(path).parts) > 1)
    whole = sorted(quoted, key=len, reverse=True)
    count = 0

    def shortened(text: str) -> str:
        nonlocal count
        if _is_path(text):
            count += text != _short(text)
            return _short(text)
        for path in whole:
            count += text.count(path)
            text = text.replace(path, _short(path))
        text, others = _IN_TEXT.subn(lambda m: _short(m[0]), text)
        count += others
        return text

    return _mapped(content, shortened), count


def _is_path(text: str) -> bool:
    """Whether a whole value is a path; `owner/name` is a model on the hub."""
    if "/" not in text or "\n" in text or "://" in text:
        return False
    if text.startswith(("/", "~/", "./", "../")):
        return True
    # Prose such as `nats/token and bits/token` has spaces around its slashes.
    return text.count("/") > 1 and " " not in text


def _short(path: str) -> str:
    parts = PurePosixPath(path).parts
    last = parts[-1].lstrip("/") if parts else ""
    if _CHECKPOINT.fullmatch(last) and len(parts) > 1 and parts[-2] not in ("..", "/"):
        return f"{parts[-2]}/{last}"
    return last


def _strings(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, dict):
        return [s for pair in content.items() for part in pair for s in _strings(part)]
    if isinstance(content, list | tuple):
        return [s for part in content for s in _strings(part)]
    return []


def _mapped(content: Any, change: Any) -> Any:
    if isinstance(content, str):
        return change(content)
    if isinstance(content, dict):
        return {_mapped(k, change): _mapped(v, change) for k, v in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(_mapped(part, change) for part in content)
    return content
