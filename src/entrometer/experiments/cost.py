"""What a request goes over, and what carrying it out is made of."""

from collections.abc import Callable
from typing import Any

from entrometer.errors import MissingKey
from entrometer.experiments.cost_model import (
    ITEM_BYTES,
    Architecture,
    Lengths,
    Work,
    passes,
)
from entrometer.experiments.cost_model.lengths import joined
from entrometer.experiments.cost_model.sampling import sampling
from entrometer.experiments.requests import Request
from entrometer.experiments.requests.base import Responses

Parts = Callable[[Any, Architecture, Lengths, int], Work]
"""Work of a request on responses of these lengths, with elements of so many bytes."""


def work(
    request: Request, shape: Architecture, lengths: Callable[[Responses], Lengths]
) -> Work:
    """Calls, FLOP and bytes of a request, given the lengths of responses."""
    if request.kind not in _PARTS:
        raise MissingKey(
            f"expected a kind of pass with a cost, one of {sorted(_PARTS)}, got "
            f"{request.kind!r}; say in experiments/cost.py what it is made of"
        )
    whole = joined([lengths(batch) for batch in request.batches])
    if request.share != 1:
        whole = whole.expected(round(request.share * whole.count))
    itemsize = ITEM_BYTES[request.subject.precision]
    # Reading what it needs and writing what it found are a call too.
    done = _PARTS[request.kind](request, shape, whole, itemsize)
    return done if done.calls else done + Work(calls=1.0)


def _forward(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    return passes.forward(shape, x, b)


def _forward_here_or_along(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    return (passes.forward if r.step is None else passes.forward_along)(shape, x, b)


def _step(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    # AdamW reads moments, parameters and a gradient, and what it makes is written.
    return passes.gradient(shape, x, b) + passes.vectors(shape, 16, b)


def _adjoint(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    D = 2 * len(r.gradients) + 2
    along = passes.jvp(shape, x, b, D, budget=4 * passes.TOKEN_BUDGET)
    return along + passes.vectors(shape, 5 * D, b)


def _carried(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    return passes.vectors(shape, 4 * (2 * len(r.gradients) + 2) + 8, b)


def _products(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    n = r.step.batch.prompts
    left = x.count - r.step.batch.count
    return passes.rows(shape, x, b) + passes.products(shape, left, n, b)


def _one_batch(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    rows = passes.rows(shape, x, b) * 2
    within = passes.products(shape, x.count, r.step.batch.prompts, b)
    return passes.forward(shape, x, b) + rows + within


def _blocks(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    groups: int = r.step.batch.prompts
    each = x.count / groups
    within = passes.products(shape, round(each), round(each), b) * groups
    rows = passes.rows(shape, x, b, groups=groups) * 2
    return passes.forward(shape, x, b) + passes.gradient(shape, x, b) + rows + within


def _gram(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    sweeps = _sweeps(r.memory, shape, x, b) if r.exact else 1
    once = passes.rows(shape, x, b) + passes.vectors(shape, 8 * x.count, b)
    found = once * sweeps
    if r.exact:
        found += passes.products(shape, x.count, x.count, b) * 2
    return found


def _cross_gram(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    own = r.step.batch.count
    sweeps = _sweeps(r.memory, shape, x, b)
    between = passes.products(shape, x.count - own, own, b)
    return passes.rows(shape, x, b) * sweeps + between


def _sweeps(memory: int, shape: Architecture, x: Lengths, b: int) -> int:
    """Passes over all sequences, where their rows do not fit in memory at once."""
    return max(1, -(-x.count * shape.trained * b // memory))


def _spectrum(r: Any, shape: Architecture, x: Lengths, b: int) -> Work:
    # The size of the Krylov space that Lanczos builds before it first looks.
    products: int = min(x.count, max(2 * r.count + 1, 20))
    one = passes.gradient(shape, x, b) + passes.jvp(shape, x, b, 1)
    return one * products


_PARTS: dict[str, Parts] = {
    "rollouts": lambda r, shape, x, b: sampling(shape, x, b, r.max_tokens),
    "forward": _forward_here_or_along,
    "update-tables": _forward,
    "concentration": _forward,
    "judged": lambda r, shape, x, b: passes.forward_along(shape, x, b),
    "jvp": lambda r, shape, x, b: passes.jvp(shape, x, b, 2 * len(r.steps)),
    "carried-slope": lambda r, shape, x, b: passes.jvp(shape, x, b, 2),
    "jvp2": lambda r, shape, x, b: passes.jvp2(shape, x, b),
    "update": _step,
    "update-treated": _step,
    "update-without": _step,
    "advanced": _step,
    "past": _step,
    "fold-gradient": lambda r, shape, x, b: (
        passes.gradient(shape, x, b, ways=3) + passes.vectors(shape, 6, b)
    ),
    "adjoint": _adjoint,
    "carried": _carried,
    "words": lambda r, shape, x, b: Work(),
    "products": _products,
    "one-batch": _one_batch,
    "blocks": _blocks,
    "kernel": _gram,
    "cross-kernel": _cross_gram,
    "spectrum": _spectrum,
}
"""What each kind of request is made of."""
