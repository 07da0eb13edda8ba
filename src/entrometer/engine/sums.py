r"""Sums of vectors as large as a model, in an order that is fixed beforehand.

Rounding depends on the order of a sum. Here it follows from the plan alone: summands
run one after another within a piece, pieces are added up in a tree, and who computes
what, when, and how often it was begun again has no say in any bit.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torch import Tensor

from entrometer.calculus import Vector
from entrometer.engine.vectors import (
    SHARD_BYTES,
    Device,
    open_vectors,
    write_vectors,
)
from entrometer.runs import DamagedFile

SNAPSHOT_SECONDS = 60.0
"""Between snapshots of a sum that is under way: what is lost with a worker."""

_CONTAINS = "contains"


def running_sum(
    snapshot: Path,
    parts: Sequence[str],
    summand: Callable[[int], Vector],
    *,
    device: Device,
    every: float = SNAPSHOT_SECONDS,
    shard_bytes: int = SHARD_BYTES,
) -> dict[str, Tensor]:
    """The sum of all parts in their order, going on from a snapshot if there is one.

    A snapshot says which parts it contains, so none is counted twice or left out. The
    caller deletes it once the sum is safe elsewhere.

    Args:
        snapshot: Where the sum is kept while it grows.
        parts: Names of the parts.
        summand: Vectors of a part, by its place.
        device: Where the vectors of a part are, and so the sum.
        every: Seconds between snapshots.
        shard_bytes: Of one file of a snapshot.
    """
    contained, total = _read_snapshot(snapshot, parts, device)
    kept = time.monotonic()
    for place in range(contained, len(parts)):
        found = summand(place)
        if total is None:
            total = dict(found)
        else:
            for name, x in found.items():
                total[name] += x
        if place + 1 < len(parts) and time.monotonic() - kept >= every:
            about = {_CONTAINS: json.dumps(list(parts[: place + 1]))}
            write_vectors(snapshot, total.items(), about=about, shard_bytes=shard_bytes)
            kept = time.monotonic()
    assert total is not None, "a sum has at least one part"
    return total


def added_up(
    paths: Sequence[Path], kind: str, device: Device
) -> Iterator[tuple[str, Tensor]]:
    """The sum of the vectors of several files, in their order, tensor by tensor.

    Sums of two tensors have the same bits on every device.
    """
    with open_vectors(paths[0], kind, device) as first:
        names = first.names()
    for name in names:
        total: Tensor | None = None
        for path in paths:
            with open_vectors(path, kind, device) as file:
                x = file[name]
            total = x if total is None else total.add_(x)
        assert total is not None
        yield name, total


def _read_snapshot(
    path: Path, parts: Sequence[str], device: Device
) -> tuple[int, dict[str, Tensor] | None]:
    if not path.exists():
        return 0, None
    try:
        with open_vectors(path, "a sum that is under way", device) as file:
            contains = json.loads(file.about[_CONTAINS])
            if contains != list(parts[: len(contains)]):
                return 0, None
            return len(contains), {name: file[name] for name in file.names()}
    except DamagedFile:
        # It saves time and nothing else.
        return 0, None
