"""Damaged files, which a reader refuses or reads as they were."""

from collections.abc import Callable
from pathlib import Path

from entrometer.runs import DamagedFile


def refused_share(path: Path, read_as_written: Callable[[], None]) -> float:
    """Flip each byte before the footer in turn; return the share that is refused.

    `read_as_written` reads the file, and fails if it reads as anything else.
    """
    whole = path.read_bytes()
    # The footer has no checksum of its own; the data pages before it do.
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    refused = 0
    for i in range(len(whole) - footer):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :])
        try:
            read_as_written()
        except DamagedFile:
            refused += 1
    return refused / (len(whole) - footer)
