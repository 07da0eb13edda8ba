"""What passes cost here: each kind timed on a few responses of the measurement."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from entrometer.experiments.cost import Batch, Size, Work, count, work
from entrometer.experiments.requests import Draw, Request, Subject, Worker
from entrometer.policy import Policy
from entrometer.runs import Rollouts, read_rollouts

_QUICK = 3.0
"""Seconds: what takes longer is not done again for its price."""


@dataclass(frozen=True)
class Price:
    r"""Seconds of a kind of pass: $t = a\,\text{calls} + b\,\text{tokens}$."""

    first: float
    """What the first of a process takes longer."""

    call: float
    token: float

    def seconds(self, done: Work) -> float:
        """Of one pass that is not the first."""
        return self.call * done.calls + self.token * done.tokens


class Architecture(NamedTuple):
    """What decides the memory of a policy."""

    parameters: int
    trained: int
    layers: int
    width: int


@dataclass(frozen=True)
class Calibration:
    """Prices on this machine."""

    prices: dict[str, Price]
    """By stage."""

    first_load: float
    load: float
    """Seconds to load the policy, the first time and again."""

    lengths: tuple[tuple[int, int], ...]
    """Tokens of the prompt and of the response, of every response that was drawn."""

    architecture: Architecture

    def size(self, batch: Batch) -> Size:
        """The size that a batch is expected to have."""
        n = count(batch)
        prompt, response = np.mean(self.lengths, axis=0).tolist()
        longest = max(length for _, length in self.lengths)
        return Size(n, n * response, n * (prompt + response), longest)


def calibrate(
    subject: Subject, few: Iterable[Request], more: Iterable[Request]
) -> Calibration:
    """Carry out two small parts of a plan, in a store that is thrown away."""
    seconds: dict[str, list[float]] = defaultdict(list)
    amounts: dict[str, list[Work]] = defaultdict(list)
    first: dict[str, float] = defaultdict(float)
    lengths: list[tuple[int, int]] = []
    with TemporaryDirectory() as folder:
        store = Path(folder)
        worker = Worker(store)
        first_load = _seconds(lambda: worker.checkpoint(subject))
        architecture = _architecture(worker.checkpoint(subject).policy)
        load = first_load
        if first_load < _QUICK:
            worker = Worker(store)
            load = _seconds(lambda: worker.checkpoint(subject))

        def size(batch: Batch) -> Size:
            assert isinstance(batch, Draw)
            return _size(read_rollouts(batch.path(store)))

        for cold_start, requests in ((True, few), (False, more)):
            for request in requests:
                name = request.stage
                worker.checkpoint(request.subject)
                pass_ = partial(request.carry_out, worker)
                if cold_start:
                    cold, taken = _seconds(pass_), _steady(pass_)
                    first[name] = max(first[name], cold - taken)
                else:
                    taken = _steady(pass_)
                seconds[name].append(taken)
                amounts[name].append(work(request, size))
                if isinstance(request, Draw):
                    lengths += _lengths(read_rollouts(request.path(store)))
    prices = {
        name: Price(
            first[name], *nnls(np.array(amounts[name]), np.array(t))[0].tolist()
        )
        for name, t in seconds.items()
    }
    return Calibration(prices, first_load, load, tuple(lengths), architecture)


def _lengths(rollouts: Rollouts) -> list[tuple[int, int]]:
    prompts = (len(p) for p in rollouts.prompt_tokens)
    return list(zip(prompts, rollouts.length.tolist(), strict=True))


def _size(rollouts: Rollouts) -> Size:
    prompt, response = np.array(_lengths(rollouts)).T
    return Size(
        rollouts.count, response.sum(), (prompt + response).sum(), response.max()
    )


def _architecture(policy: Policy) -> Architecture:
    config: Any = policy.base.config
    return Architecture(
        parameters=sum(p.numel() for p in policy.model.parameters()),
        trained=sum(p.numel() for p in policy.trained().values()),
        layers=int(getattr(config, "num_hidden_layers", 0)),
        width=int(getattr(config, "hidden_size", 0)),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _steady(work: Callable[[], object]) -> float:
    """The least of three times, where that costs little: other work is not told."""
    once = _seconds(work)
    if once > _QUICK:
        return once
    return min(once, _seconds(work), _seconds(work))
