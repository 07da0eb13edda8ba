"""Print the tables of docs/design/scale.md: what the cost model says past one machine.

Usage: python docs/figures/scale.py
"""

from collections.abc import Callable, Iterable, Sequence

from benchmarks.cost_model.flops import (
    H100,
    ITEM_BYTES,
    Architecture,
    Lengths,
    Machine,
    Work,
    decoder,
    passes,
    peak_memory,
)
from benchmarks.cost_model.flops.sampling import sampling

RANK = 16
MODELS: dict[str, dict[str, int | bool]] = {
    "SmolLM2-135M": {
        "layers": 30,
        "width": 576,
        "heads": 9,
        "kv_heads": 3,
        "feed_forward": 1536,
        "vocabulary": 49152,
        "tied": True,
    },
    "Qwen2.5-1.5B": {
        "layers": 28,
        "width": 1536,
        "heads": 12,
        "kv_heads": 2,
        "feed_forward": 8960,
        "vocabulary": 151936,
        "tied": True,
        "biased": True,
    },
    "Qwen2.5-7B": {
        "layers": 28,
        "width": 3584,
        "heads": 28,
        "kv_heads": 4,
        "feed_forward": 18944,
        "vocabulary": 152064,
        "tied": False,
        "biased": True,
    },
    "Llama-3.1-70B": {
        "layers": 80,
        "width": 8192,
        "heads": 64,
        "kv_heads": 8,
        "feed_forward": 28672,
        "vocabulary": 128256,
        "tied": False,
    },
}
SEQUENCES, CHECKPOINTS, UPDATE = 1_000_000, 20, 1024
PROMPT, RESPONSE = 128, 512
RATES = 4
"""Learning rates at which a change is measured."""

EFFICIENCY = 0.4
"""Assumed, of both peaks: nothing here has run on an H100."""

CALL = 2e-5
"""Assumed, seconds that a call of the model costs a layer."""

MEMORY = 80e9
SHARED = 5e9
"""Assumed, bytes a second of the shared storage, for all nodes together."""

VECTORS = 5
"""Two moments, a direction, a preconditioner, and a gradient on the way back."""

PIECE, FAN = 1 << 16, 8
"""Response tokens of a piece, and vectors that are added up at once."""

GPUS = (1, 8, 64, 512)
SOME = 128
"""Responses whose cost is computed; others are like them."""


def shapes() -> Iterable[tuple[str, str, Architecture]]:
    """Each model with each way to train it."""
    for name, sizes in MODELS.items():
        for trained, rank in (("LoRA", RANK), ("full", None)):
            yield name, trained, decoder(**sizes, rank=rank)  # type: ignore[arg-type]


def measurement(shape: Architecture, itemsize: int) -> dict[str, Work]:
    """The passes of one checkpoint, of which all but the update grow with E."""
    some = Lengths.of([(PROMPT, RESPONSE)] * SOME)
    times = SEQUENCES / SOME
    update = Lengths.of([(PROMPT, RESPONSE)] * UPDATE)
    return {
        "draw": sampling(shape, some, itemsize, RESPONSE) * times,
        "forward": passes.forward(shape, some, itemsize) * times,
        "forward along": passes.forward_along(shape, some, itemsize) * (times * RATES),
        "jvp": passes.jvp(shape, some, itemsize, 1) * times,
        "update": passes.gradient(shape, update, itemsize),
    }


def seconds(machine: Machine, shape: Architecture, work: Work) -> float:
    """By the assumed efficiency."""
    return CALL * shape.layers * work.calls + machine.ideal(work) / EFFICIENCY


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def duration(value: float) -> str:
    """Seconds, for people."""
    for unit, seconds_of in (("days", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * seconds_of:
            return f"{value / seconds_of:.3g} {unit}"
    return f"{value:.2g} s"


def size(value: float) -> str:
    """Bytes, for people."""
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= power:
            return f"{value / power:.3g} {unit}"
    return f"{value:.0f} B"


def print_sizes() -> None:
    """Parameters."""
    rows = []
    for name, trained, s in shapes():
        rows.append([name, trained, f"{s.parameters / 1e9:.4g}", f"{s.trained:.3g}"])
    table(["model", "trained", "parameters, 10⁹", "trained parameters"], rows)


def print_passes() -> None:
    """GPU-seconds a thousand sequences, by pass."""
    heads = ["model", "trained", "precision"]
    rows = []
    for name, trained, s in shapes():
        for precision, machine in H100.items():
            found = measurement(s, ITEM_BYTES[precision])
            each = {n: w * (1000 / SEQUENCES) for n, w in found.items()}
            each["forward along"] = each["forward along"] * (1 / RATES)
            each["update"] = found["update"] * (1000 / UPDATE)
            told = [f"{seconds(machine, s, w):.3g}" for w in each.values()]
            rows.append([name, trained, precision, *told])
            names = list(each)
    table([*heads, *names], rows)


def print_measurement() -> None:
    """A whole measurement, shared out evenly."""
    rows = []
    for name, trained, s in shapes():
        for precision, machine in H100.items():
            found = measurement(s, ITEM_BYTES[precision])
            shared = sum(
                seconds(machine, s, w) for n, w in found.items() if n != "update"
            )
            whole = CHECKPOINTS * (shared + seconds(machine, s, found["update"]))
            told = [duration(whole / gpus) for gpus in GPUS]
            fits = worker(s, precision) <= MEMORY
            rows.append(
                [name, trained, precision, *(told if fits else ["no room"] * len(told))]
            )
    table(
        ["model", "trained", "precision", *(f"{g} GPU{'s' * (g > 1)}" for g in GPUS)],
        rows,
    )


def worker(s: Architecture, precision: str) -> float:
    """Peak memory."""
    return peak_memory(s, passes.TOKEN_BUDGET, VECTORS, precision).total


def print_memory() -> None:
    """By what takes it."""
    rows = []
    for name, trained, s in shapes():
        for precision in H100:
            m = peak_memory(s, passes.TOKEN_BUDGET, VECTORS, precision)
            alone = peak_memory(s, PROMPT + RESPONSE, VECTORS, precision).total
            parts = [size(x) for x in (*m, m.total, alone)]
            rows.append(
                [name, trained, precision, *parts, f"{-(-m.total // MEMORY):.0f}"]
            )
    heads = ["model", "trained", "precision", "weights", "vectors", "activations"]
    table([*heads, "in all", "one sequence at a time", "GPUs of 80 GB"], rows)


def print_head() -> None:
    """GPU-seconds of a thousand forwards, by what of them is the head."""
    rows = []
    n = 1000 * RESPONSE
    for name, trained, s in shapes():
        if trained == "full":
            continue
        machine = H100["bfloat16"]
        whole = measurement(s, 2)["forward"] * (1000 / SEQUENCES)
        told = [f"{seconds(machine, s, whole):.3g}"]
        for chunk in (passes.HEAD_CHUNK, 16 * passes.HEAD_CHUNK):
            head = passes.head(s, n, 2, products=1, traffic=6, chunk_bytes=chunk)
            told.append(f"{seconds(machine, s, head):.3g}")
        less = Work(flop=head.single, bytes=head.bytes)
        told.append(f"{seconds(machine, s, less):.3g}")
        rows.append([name, *told])
    heads = ["model", "forward", "head, chunks of 16 MB", "of 256 MB"]
    table([*heads, "of 256 MB, products in bfloat16"], rows)


def print_vectors() -> None:
    """What a sum over pieces moves: each is written once and read once, by a tree."""
    rows = []
    for name, trained, s in shapes():
        one = 4 * s.trained
        row = [name, trained, size(one), size(CHECKPOINTS * 2 * one)]
        for sequences in (UPDATE, SEQUENCES):
            pieces = -(-sequences * RESPONSE // PIECE)
            moved = 2 * one * pieces * FAN / (FAN - 1)
            row += [f"{pieces:,}", size(moved), duration(moved / SHARED)]
        rows.append(row)
    heads = ["model", "trained", "a vector", f"{CHECKPOINTS} steps on disk"]
    for sequences in (UPDATE, SEQUENCES):
        heads += [f"pieces of {sequences:,}", "moved", "at 5 GB/s"]
    table(heads, rows)


def print_loss() -> None:
    r"""Share of a worker's time that a node lost every hour costs.

    Half a piece is lost on average, and the policy is loaded again: $(\tau/2 + l)/h$.
    """
    known = [
        (name, s)
        for name, trained, s in shapes()
        if trained == "LoRA" and worker(s, "bfloat16") <= MEMORY
    ]
    rows = []
    for tokens in (1 << 14, PIECE, 1 << 18, 1 << 20):
        row = [f"{tokens:,}"]
        for _, s in known:
            some = Lengths.of([(PROMPT, RESPONSE)] * (tokens // RESPONSE))
            tau = seconds(H100["bfloat16"], s, passes.jvp(s, some, 2, 1))
            load = 2 * s.parameters / (SHARED / 8)
            row.append(f"{duration(tau)}: {tau / 72:.2g}% + {load / 36:.2g}%")
        rows.append(row)
    table(["response tokens of a piece", *(name for name, _ in known)], rows)


TABLES: dict[str, Callable[[], None]] = {
    "Sizes": print_sizes,
    "GPU-seconds a thousand sequences": print_passes,
    "10⁶ sequences × 20 checkpoints": print_measurement,
    "Memory of a worker": print_memory,
    "The head": print_head,
    "Vectors": print_vectors,
    "A node lost an hour": print_loss,
}

if __name__ == "__main__":
    for title, show in TABLES.items():
        print(f"## {title}\n")
        show()
