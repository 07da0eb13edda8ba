"""Tables of what goes through the shared storage."""

from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.fit_tables import LABELS
from benchmarks.cost_model.scale.text import duration, size, table
from benchmarks.cost_model.scale.workers import pass_seconds, workers


def sums_written(shards: int) -> int:
    """Return how many sums a gradient over so many shards writes, in a tree."""
    written = level = shards
    while level > assumed.FAN_IN:
        level = -(-level // assumed.FAN_IN)
        written += level
    return written


def print_vectors() -> None:
    """Print the size of a vector, and what a sum over shards moves."""
    rows = []
    for w in workers():
        if w.precision != "float32":
            continue
        one = 4 * w.shape.trained
        row = [w.name, w.trained, size(one), size(assumed.CHECKPOINTS * 2 * one)]
        row.append(duration(one / assumed.STORAGE))
        for sequences in (assumed.UPDATE, assumed.SEQUENCES):
            shards = -(-sequences * assumed.RESPONSE // assumed.SHARD)
            moved = 2 * one * sums_written(shards)
            row += [size(moved), duration(moved / assumed.STORAGE)]
        rows.append(row)
    head = ["model", "trained", "a vector", f"{assumed.CHECKPOINTS} steps on disk"]
    head.append("written in")
    for sequences in (assumed.UPDATE, assumed.SEQUENCES):
        head += [f"sum over {sequences:,}", "at 5 GB/s"]
    table(head, rows)


def print_loading() -> None:
    """Print how long workers take to load, and a shard of a jvp."""
    rows = []
    for w in workers():
        if not w.preferred or w.needed is None:
            continue
        stored = 2 * w.shape.parameters
        times = [duration(n * stored / assumed.STORAGE) for n in assumed.GPUS]
        count = assumed.SHARD / assumed.RESPONSE / 1000
        shard = pass_seconds(w, w.needed)["jvp"] * count / w.needed
        rows.append([*w.labels, str(w.needed), size(stored), *times, duration(shard)])
    head = [*LABELS, "GPUs", "read"]
    head += [f"{n} workers" for n in assumed.GPUS]
    table([*head, "jvp of a shard"], rows)
