"""One worker on Ray beside this process beside a bare loop, and two beside one.

Of each piece of work the least time of several rounds counts, and of one worker beside
two that of each four pieces: what else a machine does adds to a time and never takes
from it.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

# Before Ray is loaded: its workers would step back behind everything else.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

import torch
from torch import Tensor

from benchmarks.harness import Check, Report
from benchmarks.influence.subject import CHECKPOINT
from entrometer import passes
from entrometer.engine import Engine, Here, Status, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Step, Worker
from entrometer.experiments.requests.divided import Summands
from entrometer.experiments.update import ascent_of, make_step
from entrometer.experiments.update_batch import sampled_batch

ROUNDS = 5
WINDOW = 4
"""Pieces that one worker and two are timed over: two of each of the two."""

SHARDS = 2 + 2 * WINDOW
"""The first two are not timed: before them models are loaded."""

RESPONSES = 4
"""Of a shard."""

Ends = list[float]
"""When each piece of work was done."""


def run() -> Report:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        draws, step = _prepared(store)
        rounds: dict[str, list[Ends]] = {}
        for _ in range(ROUNDS):
            for name, carry_out in _ways(draws, step, store).items():
                rounds.setdefault(name, []).append(carry_out())
    piece = {name: _least(own) for name, own in rounds.items() if name != "two workers"}
    one, two = (_windows(rounds[name]) for name in ("one worker", "two workers"))
    return Report(
        [
            Check(
                "in process over a bare loop",
                piece["here"] / piece["bare"],
                at_most=1.05,
            ),
            Check(
                "one worker on Ray over a bare loop",
                piece["one worker"] / piece["bare"],
                at_most=1.05,
            ),
            Check(
                "two workers on Ray, times as fast as one",
                one / two,
                at_least=1.8,
            ),
        ],
        {
            "seconds_a_piece": piece,
            "seconds_of_rounds": {
                name: [ends[-1] - ends[0] for ends in own]
                for name, own in rounds.items()
            },
        },
    )


def _ways(
    draws: tuple[Draw, ...], step: Step, store: Path
) -> dict[str, Callable[[], Ends]]:
    from entrometer.engine.on_ray import OnRay

    def engine(made: Engine) -> Callable[[], Ends]:
        return lambda: _carried_out(made, draws, step, store)

    return {
        "bare": lambda: _bare(draws, step, store),
        "here": engine(Here()),
        "one worker": engine(OnRay(workers=1)),
        "two workers": engine(OnRay(workers=2)),
    }


@dataclass(frozen=True, kw_only=True)
class Both(Step):
    """A jvp along a step over a batch, and the update that the batch makes."""

    kind: ClassVar[str] = "jvp-and-update"

    along: Step

    def summands(self, worker: Worker) -> Summands:
        """The two passes of a shard."""
        policy = worker.checkpoint(self.subject).policy
        whole = self.read_batch(worker.store)
        v = self.along.read(worker.store).direction

        def both(rows: slice) -> dict[str, Tensor]:
            batch = whole.some(rows)
            passes.jvp(policy, batch.rollouts, [v])
            return ascent_of(policy, batch)

        return both


def _bare(draws: tuple[Draw, ...], step: Step, store: Path) -> Ends:
    checkpoint = Worker(store).checkpoint(step.subject)
    v = step.read(store).direction
    ends: Ends = []
    for draw in draws:
        rollouts = draw.read(store)
        passes.jvp(checkpoint.policy, rollouts, [v])
        ascent = ascent_of(checkpoint.policy, sampled_batch(rollouts))
        make_step(checkpoint, ascent, max_grad_norm=1.0)
        ends.append(time.perf_counter())
    return ends


def _carried_out(
    engine: Engine, draws: tuple[Draw, ...], step: Step, store: Path
) -> Ends:
    works = [
        Both(subject=step.subject, batch=draw, max_grad_norm=1.0, along=step)
        for draw in draws
    ]
    for work in works:
        work.path(store).unlink(missing_ok=True)
    ends: Ends = []

    def progress(status: Status) -> None:
        if status.left < len(works) - len(ends):
            ends.append(time.perf_counter())

    engine.carry_out(works, worker=Worker, store=store, progress=progress)
    assert len(ends) == len(works)
    return ends


def _least(rounds: Sequence[Ends]) -> float:
    """Seconds a piece; the first, before which a model is loaded, is left out."""
    spans = ([end - begin for begin, end in pairwise(ends)] for ends in rounds)
    least: list[float] = [min(piece) for piece in zip(*spans, strict=True)]
    return sum(least) / len(least)


def _windows(rounds: Sequence[Ends]) -> float:
    """Seconds of all windows, the least of each over the rounds."""
    return sum(
        min(ends[i + WINDOW] - ends[i] for ends in rounds)
        for i in range(1, SHARDS - WINDOW, WINDOW)
    )


def _prepared(store: Path) -> tuple[tuple[Draw, ...], Step]:
    config = ExperimentConfig(
        checkpoints=(str(CHECKPOINT),),
        policy="smollm2",
        level="easy",
        prompts=SHARDS * RESPONSES,
        shard=RESPONSES,
    )
    subject = subject_of(config, CHECKPOINT)
    draws = evaluation(config, subject)
    step = step_of(config, subject, "recorded", 40)
    Here().carry_out([*draws, step], worker=Worker, store=store, progress=quiet)
    return draws, step
