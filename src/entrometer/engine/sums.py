"""Sums of parameter-sized vectors, in an order that the plan fixes.

Rounding depends on the order of a sum. Summands are added one after another within a
shard, and shards in a tree, so which worker runs what, when, and how often it was
resumed does not change any bit.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torch import Tensor

from entrometer.calculus import Vector
from entrometer.engine.vectors import SHARD_BYTES, Device, open_vectors, write_vectors
from entrometer.runs import DamagedFile

SNAPSHOT_SECONDS = 60.0
"""Seconds between snapshots of a growing sum: the most that a dead worker loses."""

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
    """Return the sum of all parts in their order, resumed from a snapshot if any.

    The caller deletes the snapshot once the sum is stored.

    Args:
        snapshot: File of the growing sum.
        parts: Names of the parts.
        summand: Returns the vectors of a part, by its index.
        device: Device of the vectors and of the sum.
        every: Seconds between snapshots.
        shard_bytes: Size of one file of a snapshot.
    """
    contained, total = _read_snapshot(snapshot, parts, device)
    vectors: Vector = {}
    saved = time.monotonic()
    for place in range(contained, len(parts)):
        vectors = summand(place)
        if total is None:
            total = dict(vectors)
        else:
            # In place: a second sum of this size need not fit in memory.
            for name, x in vectors.items():
                total[name] += x
        if place + 1 < len(parts) and time.monotonic() - saved >= every:
            # The names of the parts, so that none is counted twice or left out.
            about = {_CONTAINS: json.dumps(list(parts[: place + 1]))}
            write_vectors(snapshot, total.items(), about=about, shard_bytes=shard_bytes)
            saved = time.monotonic()
    assert total is not None, "a sum has at least one part"
    # In the order of the summands: a snapshot has its own, in which a norm over all
    # tensors would round otherwise.
    return {name: total[name] for name in vectors}


def added_up(
    paths: Sequence[Path], kind: str, device: Device
) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor's name with its sum over several files, in their order."""
    with open_vectors(paths[0], kind, device) as first:
        names = first.names()
    for name in names:
        total: Tensor | None = None
        # One tensor of one file at a time, so that memory does not grow with the files.
        # Sums of two tensors have the same bits on every device.
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
        with open_vectors(path, "a snapshot of a sum", device) as file:
            contains = json.loads(file.about[_CONTAINS])
            # Other parts: the snapshot is of another division, whose sum may round
            # differently.
            if contains != list(parts[: len(contains)]):
                return 0, None
            return len(contains), {name: file[name] for name in file.names()}
    except DamagedFile:
        # A snapshot only saves time: without it, the sum starts again.
        return 0, None
