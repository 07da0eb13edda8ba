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
from torch.distributed.device_mesh import DeviceMesh

from entrometer.calculus import Vector
from entrometer.calculus.sharded import Placement, mesh_of, of_leader
from entrometer.engine.vectors import SHARD_BYTES, open_vectors, write_vectors
from entrometer.runs import DamagedFile

SNAPSHOT_SECONDS = 60.0
"""Seconds between snapshots of a growing sum: the most that a dead worker loses."""

_CONTAINS = "contains"


def running_sum(
    snapshot: Path,
    parts: Sequence[str],
    summand: Callable[[int], Vector],
    *,
    placement: Placement,
    every: float = SNAPSHOT_SECONDS,
    shard_bytes: int = SHARD_BYTES,
) -> dict[str, Tensor]:
    """Return the sum of all parts in their order, resumed from a snapshot if any.

    The caller deletes the snapshot once the sum is stored.

    Args:
        snapshot: File of the growing sum.
        parts: Names of the parts.
        summand: Returns the vectors of a part, by its index.
        placement: Device of the vectors and of the sum, or the group that has them.
        every: Seconds between snapshots.
        shard_bytes: Size of one file of a snapshot.
    """
    contained, total = _read_snapshot(snapshot, parts, placement)
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
        due = place + 1 < len(parts) and time.monotonic() - saved >= every
        # By the leader's clock: all processes of a group write a snapshot, or none.
        if of_leader(_mesh(total), due):
            # The names of the parts, so that none is counted twice or left out.
            about = {_CONTAINS: json.dumps(list(parts[: place + 1]))}
            write_vectors(snapshot, total.items(), about=about, shard_bytes=shard_bytes)
            saved = time.monotonic()
    assert total is not None, "a sum has at least one part"
    # In the order of the summands: a snapshot has its own, in which a norm over all
    # tensors would round otherwise.
    return {name: total[name] for name in vectors}


def added_up(
    paths: Sequence[Path], kind: str, placement: Placement
) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor's name with its sum over several files, in their order."""
    with open_vectors(paths[0], kind, placement) as first:
        names = first.names()
    for name in names:
        total: Tensor | None = None
        # One tensor of one file at a time, so that memory does not grow with the files.
        # Sums of two tensors have the same bits on every device.
        for path in paths:
            with open_vectors(path, kind, placement) as file:
                x = file[name]
            total = x if total is None else total.add_(x)
        assert total is not None
        yield name, total


def _mesh(vectors: Vector) -> DeviceMesh | None:
    return next((mesh_of(x) for x in vectors.values()), None)


def _read_snapshot(
    path: Path, parts: Sequence[str], placement: Placement
) -> tuple[int, dict[str, Tensor] | None]:
    if not path.exists():
        return 0, None
    try:
        with open_vectors(path, "a snapshot of a sum", placement) as file:
            contains = json.loads(file.about[_CONTAINS])
            # Other parts: the snapshot is of another division, whose sum may round
            # differently.
            if contains != list(parts[: len(contains)]):
                return 0, None
            return len(contains), {name: file[name] for name in file.names()}
    except DamagedFile:
        # A snapshot only saves time: without it, the sum starts again.
        return 0, None
