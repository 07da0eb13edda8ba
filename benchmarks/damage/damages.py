"""Ways in which a file is damaged, and one at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda content: None,
    "emptied": lambda content: b"",
    "cut to half": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-1],
    "first byte flipped": lambda content: _flipped(content, 0),
    "middle byte flipped": lambda content: _flipped(content, len(content) // 2),
    "last byte flipped": lambda content: _flipped(content, len(content) - 1),
    "a byte longer": lambda content: content + b"\0",
}


@contextmanager
def damaged(path: Path, damage: str) -> Iterator[None]:
    """Damage a file, and put it back."""
    content = path.read_bytes()
    altered = DAMAGES[damage](content)
    if altered is None:
        path.unlink()
    else:
        # In place: the inode stays, so that a remembered hash must not be trusted.
        path.write_bytes(altered)
    try:
        yield
    finally:
        path.write_bytes(content)


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
