"""A reward that any policy sometimes gets, so that updates have a signal."""

from collections.abc import Sequence


def parity(completions: Sequence[str], **_: object) -> list[float]:
    """1 where the sum of a text's characters is odd."""
    return [float(sum(map(ord, text)) % 2) for text in completions]
