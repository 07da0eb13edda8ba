"""A small part of a plan that has every kind of its passes."""

from collections.abc import Iterator
from dataclasses import replace

from entrometer.experiments.kernel.plan import CheckpointPlan
from entrometer.experiments.requests import Request

FEW, MORE = (4, 2), (16, 4)
"""Sequences, and prompts and responses a prompt of an update."""


def excerpt(point: CheckpointPlan, sequences: int, group: int) -> Iterator[Request]:
    """A kernel of a few sequences, and one update.

    Args:
        point: The plan.
        sequences: Of the kernel, and held out.
        group: Prompts of the update batch, and responses to each of them.
    """
    held, update = point.here[0].rollouts, point.updates[0]
    every = [problem for draw in point.gram.draws for problem in draw.problems]
    few = held.of(every[:sequences])
    problems = list(dict.fromkeys(every))[:group]
    batch = held.of([problem for problem in problems for _ in range(group)])
    step = replace(update.step, batch=batch)
    here = replace(point.here[0], rollouts=few)
    yield from (few, batch, step, here)
    yield replace(point.gram, draws=(few,), step=step)
    for spectrum in point.spectra.values():
        count = min(spectrum.count, len(few.problems) // 2)
        yield replace(spectrum, draws=(few,), step=step, count=count)
    yield replace(update.cross, draws=(few,), step=step)
    yield replace(update.carried[0], rollouts=few, step=step)
    yield replace(here, step=step, eta=point.eta)
