"""Tables of GPU-seconds, of whole measurements, and of drawing."""

from benchmarks.cost_model.flops import parts
from benchmarks.cost_model.flops.work import Work
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.drawing import (
    Server,
    fits,
    loop_seconds,
    parallel,
    server,
    server_seconds,
)
from benchmarks.cost_model.scale.fit_tables import LABELS, gpus
from benchmarks.cost_model.scale.text import duration, gigabytes, table
from benchmarks.cost_model.scale.workers import (
    Worker,
    pass_seconds,
    seconds,
    workers,
)

RESPONSES = (512, 2048, 8192, 32768)
DRAWN_AT_ONCE = (64, 256, 1024)


def print_passes() -> None:
    """Print GPU-seconds per thousand sequences, by pass."""
    rows = []
    for w in workers():
        if w.needed is not None:
            took = pass_seconds(w, w.needed)
            times = [f"{t:.3g}" for t in took.values()]
            rows.append([*w.labels, str(w.needed), *times])
            names = list(took)
    table([*LABELS, "GPUs", *names], rows)


def print_measurement() -> None:
    """Print the time of a whole measurement, shared out evenly."""
    rows = []
    for w in workers():
        g = w.needed
        if g is None:
            times = [gpus(g)] * len(assumed.GPUS)
        else:
            whole = measurement_seconds(w, g)
            times = [
                duration(whole / n) if g <= n else f"no room: needs {g}"
                for n in assumed.GPUS
            ]
        rows.append([*w.labels, gpus(g), *times, *_with_folds(w)])
    head = [*LABELS, "GPUs per worker", *(f"{n} GPUs" for n in assumed.GPUS)]
    most = assumed.GPUS[-1]
    table([*head, "GPUs with folds", f"{most} GPUs with folds"], rows)


def _with_folds(w: Worker) -> list[str]:
    """Return the GPUs of a worker that also has gradients of folds, and its time."""
    g = w.needed_for_folds
    if g is None:
        return [gpus(g)] * 2
    folds = assumed.SEQUENCES / 1000 * pass_seconds(w, g)["folds"]
    whole = measurement_seconds(w, g) + assumed.CHECKPOINTS * folds
    return [str(g), duration(whole / assumed.GPUS[-1])]


def measurement_seconds(w: Worker, shards: int) -> float:
    """Return the GPU-seconds of a measurement at all checkpoints."""
    took = pass_seconds(w, shards)
    drawn = server_seconds(w, server(w))
    each = took["forward"] + took["jvp"] + assumed.RATES * took["forward after step"]
    one = assumed.SEQUENCES / 1000 * (drawn + each)
    return assumed.CHECKPOINTS * (one + assumed.UPDATE / 1000 * took["update"])


def print_lengths() -> None:
    """Print time and memory for longer responses."""
    rows = []
    for response in RESPONSES:
        for w in workers(response):
            if w.preferred and not w.shape.experts:
                rows.append([f"{response:,}", *w.labels, *_length_cells(w)])
    head = ["tokens", *LABELS, "GPUs", "draw", "forward", "jvp", "update"]
    table([*head, "jvp, GB", "gradient, GB"], rows)


def _length_cells(w: Worker) -> list[str]:
    """Return GPUs, GPU-seconds by pass, and memory; `none` if no GPUs do."""
    draw = f"{server_seconds(w, server(w)):.3g}"
    # Where no gradient fits, the others may.
    g = w.needed or w.needed_by_jvp
    most = g or assumed.SIZES[-1]
    gradient = w.gradient_memory(most).total
    memory = [gigabytes(w.jvp_memory(most).total), gigabytes(gradient)]
    if g is None:
        return ["none", draw, "none", "none", "none", *memory]
    took = pass_seconds(w, g)
    update = f"{took['update']:.3g}" if w.needed else "none"
    times = [f"{took[name]:.3g}" for name in ("forward", "jvp")]
    return [str(g), draw, *times, update, *memory]


def print_drawing() -> None:
    """Print GPU-seconds per thousand responses drawn."""
    rows = []
    for w in workers():
        if w.precision != "mixed":
            continue
        g = w.needed_by_jvp
        assert g is not None
        t = parallel(w.shape)
        cells = [
            f"{server_seconds(w, Server(t, n)):.3g}" if fits(w, t, n) else "no room"
            for n in DRAWN_AT_ONCE
        ]
        rows.append([w.name, str(g), f"{loop_seconds(w, g):.3g}", str(t), *cells])
    head = ["model", "GPUs of a worker", "transformers' loop", "GPUs of a server"]
    table([*head, *(f"{n} at once" for n in DRAWN_AT_ONCE)], rows)


def print_head() -> None:
    """Print GPU-seconds of a thousand forwards, and the head's part of them."""
    rows = []
    n = 1000 * assumed.RESPONSE
    for w in workers():
        if w.precision != "bfloat16":
            continue
        machine = assumed.machine(w.precision)
        head = parts.head(w.shape, n, w.precision, count=1, traffic=6)
        narrow = Work(flop=head.single, bytes=head.bytes)
        times = [pass_seconds(w, 1)["forward"]]
        times += [seconds(machine, w.shape, work) for work in (head, narrow)]
        rows.append([w.name, *(f"{t:.3g}" for t in times)])
    table(["model", "forward", "head", "head, products in bfloat16"], rows)
