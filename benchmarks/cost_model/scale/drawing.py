"""Drawing responses: by transformers' loop, and by a pool of vLLM servers."""

from typing import NamedTuple

from benchmarks.cost_model.flops import Architecture, Work, groups
from benchmarks.cost_model.flops.sampling import sampling, served, server_memory
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.workers import Worker, seconds

AT_ONCE = 256
"""Sequences that a server has at once, where its cache has room for them."""

_SOME = 150


class Server(NamedTuple):
    """One server: its GPUs, and the sequences that it has at once."""

    parallel: int
    at_once: int


def parallel(shape: Architecture) -> int:
    """Return the GPUs of a server: weights are at most half of its memory."""
    return next(
        t
        for t in assumed.SIZES
        if 2 * shape.parameters <= t * assumed.SERVED_MEMORY / 2
    )


def server(worker: Worker) -> Server:
    """Return the server of a model, with as many sequences as its cache holds."""
    t = parallel(worker.shape)
    weights = server_memory(worker.shape, worker.sequence, 0)
    each = server_memory(worker.shape, worker.sequence, 1) - weights
    fit = int((t * assumed.SERVED_MEMORY - weights) // each)
    return Server(t, min(AT_ONCE, fit))


def fits(worker: Worker, t: int, at_once: int) -> bool:
    """Return whether weights and cache of so many sequences fit into a server."""
    needed = server_memory(worker.shape, worker.sequence, at_once)
    return needed <= t * assumed.SERVED_MEMORY


def server_seconds(worker: Worker, server: Server) -> float:
    """Return the GPU-seconds of a thousand responses from a pool of servers."""
    shape, t = worker.shape, server.parallel
    work = served(shape, worker.lengths(_SOME), server.at_once, t)
    sums = 2 * shape.layers * assumed.REDUCTION * work.calls if t > 1 else 0.0
    machine = assumed.machine("bfloat16", t)
    return (seconds(machine, shape, work) + sums) * t * 1000 / _SOME


def loop_seconds(worker: Worker, shards: int) -> float:
    """Return the GPU-seconds of a thousand responses from transformers' loop.

    In a group, all processes draw the same responses, and gather every parameter for
    each token.
    """
    shape, precision = worker.shape, worker.precision
    work = sampling(shape, worker.lengths(_SOME), precision, worker.response)
    moved = groups.of_forward(shape, precision, shards) * work.calls
    machine = assumed.machine(precision, shards)
    each = seconds(machine, shape, work + Work(exchanged=moved))
    return each * shards * 1000 / _SOME
