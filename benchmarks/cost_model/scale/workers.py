"""Workers: how many GPUs they need, and what their passes take."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.cost_model.flops import (
    Architecture,
    Lengths,
    Machine,
    Memory,
    Work,
    gradient_memory,
    groups,
    jvp_memory,
    passes,
)
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.assumptions import PROMPT, RESPONSE

_SOME = 150
"""Responses whose cost is computed; others are like them."""


@dataclass(frozen=True)
class Worker:
    """A way to train a model, in a precision, at a length of responses."""

    name: str
    trained: str
    precision: str
    shape: Architecture
    response: int = RESPONSE

    @property
    def labels(self) -> list[str]:
        """Return model, what is trained, and precision."""
        return [self.name, self.trained, self.precision]

    @property
    def preferred(self) -> bool:
        """Return whether the precision is the one to choose for what is trained."""
        return self.precision == ("mixed" if self.trained == "LoRA" else "float32")

    @property
    def sequence(self) -> int:
        """Return the tokens of a sequence, prompt included."""
        return PROMPT + self.response

    def gradient_memory(self, shards: int, vectors: int = assumed.VECTORS) -> Memory:
        """Return the memory per GPU of a sum of gradients."""
        tokens = max(self.sequence, passes.TOKEN_BUDGET)
        return gradient_memory(self.shape, tokens, vectors, self.precision, shards)

    def jvp_memory(self, shards: int) -> Memory:
        """Return the memory per GPU of a jvp, which is more than that of a forward."""
        D = assumed.DIRECTIONS
        tokens = max((1 + D) * self.sequence, passes.TOKEN_BUDGET)
        return jvp_memory(self.shape, tokens, D, self.precision, shards)

    @property
    def needed(self) -> int | None:
        """Return the fewest GPUs that every pass fits on; None if none are enough."""
        return self._fewest(lambda g: self.gradient_memory(g).total)

    @property
    def needed_for_folds(self) -> int | None:
        """Return the fewest GPUs that the gradients of folds fit on as well."""
        many = assumed.FOLD_VECTORS
        return self._fewest(lambda g: self.gradient_memory(g, many).total)

    @property
    def needed_by_jvp(self) -> int | None:
        """Return the fewest GPUs that forward and jvp fit on."""
        return self._fewest(lambda g: 0.0)

    def _fewest(self, of_gradient: Callable[[int], float]) -> int | None:
        for g in assumed.SIZES:
            if max(of_gradient(g), self.jvp_memory(g).total) <= assumed.MEMORY:
                return g
        return None

    def passes(self, shards: int) -> dict[str, Work]:
        """Return the work of each pass over a thousand sequences, all GPUs together."""
        shape, precision = self.shape, self.precision
        some = self.lengths(_SOME)
        batches = list(some.batches(passes.TOKEN_BUDGET))
        grouped = shards > 1
        D, k = assumed.DIRECTIONS, assumed.FOLD_GRADIENTS
        vjp = partial(
            passes.vjp, shape, batches, some.scored, precision, grouped=grouped
        )
        forward = groups.of_forward(shape, precision, shards)
        each = {
            "forward": (passes.forward(shape, some, precision), forward),
            "forward after step": (
                passes.forward_along(shape, some, precision),
                forward,
            ),
            "jvp": (
                passes.jvp(shape, some, precision, D, grouped=grouped),
                groups.of_jvp(shape, precision, shards, D),
            ),
            "update": (
                vjp(ways=1),
                groups.of_vjp(shape, precision, shards),
            ),
            "folds": (
                vjp(ways=k),
                groups.of_vjp(shape, precision, shards, k),
            ),
        }
        return {
            name: (work + Work(exchanged=work.calls * moved)) * (1000 / _SOME)
            for name, (work, moved) in each.items()
        }

    def lengths(self, count: int) -> Lengths:
        """Return the lengths of so many responses, which are all as long."""
        return Lengths.of([(PROMPT, self.response)] * count)


def workers(response: int = RESPONSE) -> Iterator[Worker]:
    """Yield every model with every way to train it and precision."""
    for name, trained, shape in assumed.shapes():
        for precision in assumed.PRECISIONS[trained]:
            yield Worker(name, trained, precision, shape, response)


def seconds(machine: Machine, shape: Architecture, work: Work) -> float:
    """Return the seconds of some work at the assumed efficiency."""
    calls = assumed.CALL * shape.layers * work.calls
    return calls + machine.ideal(work) / assumed.EFFICIENCY


def pass_seconds(
    worker: Worker, shards: int, link: str | None = None
) -> dict[str, float]:
    """Return the GPU-seconds of each pass over a thousand sequences."""
    machine = assumed.machine(worker.precision, shards, link)
    works = worker.passes(shards)
    return {n: seconds(machine, worker.shape, work) for n, work in works.items()}
