"""Nested settings as a flat list that a page can show."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_DEEPEST = 4


def flat(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Dotted names with their values: texts as they are, the rest as JSON."""
    return list(_walk(settings, "", _DEEPEST))


def _walk(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and depth:
        for key, inner in value.items():
            yield from _walk(inner, f"{name}.{key}" if name else key, depth - 1)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False)
