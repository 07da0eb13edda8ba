"""A small part of a plan that has every kind of its passes."""

from collections.abc import Iterator
from dataclasses import replace

from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.requests import Forward, Request

FEW, MORE = (4, 2), (16, 4)
"""Responses of an evaluation batch, and prompts and responses a prompt of an update."""


def excerpt(
    point: CheckpointPlan, prompts: int, group: int, *, removing: bool
) -> Iterator[Request]:
    """One shard, one update, and one step to look along.

    Args:
        point: The plan.
        prompts: Of the shard.
        group: Prompts of the update batch, and responses to each of them.
        removing: Whether tokens are going to be taken out of the loss.
    """
    whole, update = point.here[0].rollouts, point.updates[0]
    draw = whole.of(list(whole.problems[:prompts]))
    here = Forward(subject=point.subject, rollouts=draw)
    problems = list(dict.fromkeys(whole.problems))[:group]
    batch = whole.of([problem for problem in problems for _ in range(group)])
    step = replace(update.step, batch=batch)
    gradients = tuple(replace(g, here=(here,)) for g in point.gradients)
    yield from (draw, batch, here, step, *gradients)
    yield replace(update.adjoint, step=step, gradients=gradients)
    yield replace(update.carried, step=step, gradients=gradients)
    for past in update.past[:1]:
        yield replace(past, step=step, gradients=gradients, batch=batch)
    yield replace(update.concentration, batch=batch)
    yield replace(update.blocks, step=step)
    yield replace(update.words, batch=batch)
    if removing:
        yield replace(here, step=step, eta=point.eta)
