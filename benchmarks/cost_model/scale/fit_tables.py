"""Tables of what fits where, and of what the GPUs of a worker exchange."""

from benchmarks.cost_model.flops import groups
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.text import gigabytes, size, table
from benchmarks.cost_model.scale.workers import Worker, pass_seconds, workers

LABELS = ["model", "trained", "precision"]
_MEASURED = {"forward": 1, "forward after step": assumed.RATES, "jvp": 1}
"""Passes over every sequence of a measurement."""


def gpus(count: int | None) -> str:
    """Return a number of GPUs as a cell."""
    return f"more than {assumed.SIZES[-1]}" if count is None else str(count)


def print_fit() -> None:
    """Print the fewest GPUs that a worker needs."""
    rows = []
    for w in workers():
        s = w.shape
        counts = (w.needed_by_jvp, w.needed)
        sizes = [f"{s.parameters / 1e9:.4g}", f"{s.trained / 1e9:.3g}"]
        rows.append([*w.labels, *sizes, *map(gpus, counts)])
    head = [*LABELS, "parameters, 10⁹", "trained, 10⁹", "forward, jvp", "all passes"]
    table(head, rows)


def print_memory() -> None:
    """Print what takes the memory of one GPU."""
    rows = []
    for w in workers():
        g = w.needed or assumed.SIZES[-1]
        m = w.gradient_memory(g)
        parts = [gigabytes(x) for x in (*m, m.total, w.jvp_memory(g).total)]
        rows.append([*w.labels, gpus(w.needed), *parts])
    head = [*LABELS, "GPUs", "weights", "vectors", "gathered", "merged", "activations"]
    table([*head, "head", "gradient, GB", "jvp, GB"], rows)


def print_exchange() -> None:
    """Print bytes per call, and their share of the time by link."""
    rows = []
    for w in workers():
        g = w.needed
        if g is None or g == 1:
            continue
        moved = (
            groups.of_forward(w.shape, w.precision, g),
            groups.of_jvp(w.shape, w.precision, g, assumed.DIRECTIONS),
            groups.of_vjp(w.shape, w.precision, g),
        )
        shares = [f"{100 * exchanged_share(w, g, link):.0f}%" for link in assumed.LINKS]
        rows.append([*w.labels, str(g), *map(size, moved), *shares])
    table([*LABELS, "GPUs", "forward", "jvp", "gradient", *assumed.LINKS], rows)


def exchanged_share(w: Worker, shards: int, link: str) -> float:
    """Return the share of a measurement's forwards and jvp that is exchange."""
    machine = assumed.machine(w.precision, shards, link)
    took, moved = pass_seconds(w, shards, link), w.passes(shards)
    whole = sum(times * took[name] for name, times in _MEASURED.items())
    bytes_moved = sum(
        times * moved[name].exchanged for name, times in _MEASURED.items()
    )
    assert machine.link is not None
    return bytes_moved / machine.link / assumed.EFFICIENCY / whole
