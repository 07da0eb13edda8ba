"""A small part of a plan that has every kind of its passes."""

from collections.abc import Iterator
from dataclasses import replace

from entrometer.experiments.comparison.plan import PointPlan
from entrometer.experiments.comparison.requests import Advanced, Judged
from entrometer.experiments.requests import Forward, Request

FEW, MORE = (4, 2), (16, 4)
"""Responses of an evaluation batch, and prompts and responses a prompt of an update."""


def excerpt(point: PointPlan, prompts: int, group: int) -> Iterator[Request]:
    """One shard, one update and one step, at the checkpoint itself.

    Args:
        point: The plan.
        prompts: Of the shard.
        group: Prompts of the update batch, and responses to each of them.
    """
    subject = replace(point.subject, advanced=None)
    first = replace(point.here[0].rollouts, subject=subject)
    draw = first.of(list(first.problems[:prompts]))
    here = Forward(subject=subject, rollouts=draw)
    problems = list(dict.fromkeys(first.problems))[:group]
    batch = first.of([problem for problem in problems for _ in range(group)])
    tables = replace(point.seen.here, subject=subject, batch=batch)
    yield from (draw, batch, here, tables)
    if point.seen.concentration is not None:
        yield replace(point.seen.concentration, subject=subject, batch=batch)
    step = replace(point.plain, subject=subject, batch=batch, here=tables, old=tables)
    gradients = tuple(
        replace(g, subject=subject, here=(here,)) for g in point.gradients
    )
    yield from (step, *gradients)
    for request in (point.adjoint, point.carried):
        yield replace(request, subject=subject, step=step, gradients=gradients)
    yield Advanced(subject=subject, step=step, eta=point.eta)
    if point.trials:
        yield Judged(subject=subject, gradients=gradients[0], step=step, eta=point.eta)
