"""What passes cost here: each kind timed on a few responses of the measurement."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from entrometer.experiments.cost import work
from entrometer.experiments.cost_model import (
    Architecture,
    Lengths,
    Machine,
    Rate,
    Work,
    fit_rate,
)
from entrometer.experiments.cost_model.here import architecture_of, measure_machine
from entrometer.experiments.requests import Draw, Request, Subject, Worker
from entrometer.experiments.requests.base import Responses
from entrometer.runs import Rollouts, read_rollouts

_QUICK = 3.0
"""Seconds: what takes longer is not done again for its price."""


@dataclass(frozen=True)
class Calibration:
    """The cost model with the constants of this machine."""

    machine: Machine
    rates: dict[str, Rate]
    """By stage."""

    first_load: float
    load: float
    """Seconds to load the policy, the first time and again."""

    lengths: tuple[tuple[int, int], ...]
    """Tokens of the prompt and of the response, of every response that was drawn."""

    architecture: Architecture

    def expected(self, batch: Responses) -> Lengths:
        """The lengths that the responses of a batch are expected to have."""
        return Lengths.of(self.lengths).expected(batch.count)

    def seconds(self, request: Request) -> float:
        """Of a request that is not the first of its stage."""
        done = work(request, self.architecture, self.expected)
        return self.rates[request.stage].seconds(self.machine, done)


def calibrate(
    subject: Subject, few: Iterable[Request], more: Iterable[Request]
) -> Calibration:
    """Carry out two small parts of a plan, in a store that is thrown away."""
    seconds: dict[str, list[float]] = defaultdict(list)
    works: dict[str, list[Work]] = defaultdict(list)
    first: dict[str, float] = defaultdict(float)
    drawn: list[tuple[int, int]] = []
    with TemporaryDirectory() as folder:
        store = Path(folder)
        worker = Worker(store)
        first_load = seconds_of(lambda: worker.checkpoint(subject))
        policy = worker.checkpoint(subject).policy
        shape, machine = architecture_of(policy), measure_machine(policy)
        load = first_load
        if first_load < _QUICK:
            worker = Worker(store)
            load = seconds_of(lambda: worker.checkpoint(subject))

        def lengths(batch: Responses) -> Lengths:
            assert isinstance(batch, Draw)
            return Lengths.of(pairs(read_rollouts(batch.path(store))))

        for cold_start, requests in ((True, few), (False, more)):
            for request in requests:
                name = request.stage
                worker.checkpoint(request.subject)
                pass_ = partial(request.carry_out, worker)
                if cold_start:
                    cold, taken = seconds_of(pass_), _steady(pass_)
                    first[name] = max(first[name], cold - taken)
                else:
                    taken = _steady(pass_)
                seconds[name].append(taken)
                works[name].append(work(request, shape, lengths))
                if isinstance(request, Draw):
                    drawn += pairs(read_rollouts(request.path(store)))
    rates = {
        name: fit_rate(machine, works[name], t, first[name])
        for name, t in seconds.items()
    }
    return Calibration(machine, rates, first_load, load, tuple(drawn), shape)


def pairs(rollouts: Rollouts) -> list[tuple[int, int]]:
    """Tokens of the prompt and of the response, of each."""
    prompts = (len(p) for p in rollouts.prompt_tokens)
    return list(zip(prompts, rollouts.length.tolist(), strict=True))


def seconds_of(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _steady(work: Callable[[], object]) -> float:
    """The least of three times, where that costs little: other work is not told."""
    once = seconds_of(work)
    if once > _QUICK:
        return once
    return min(once, seconds_of(work), seconds_of(work))
