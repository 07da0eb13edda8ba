"""A small part of a plan that has every kind of its passes."""

from dataclasses import replace

from entrometer.experiments.entropy_change.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.entropy_change.requests import OneBatch, Products
from entrometer.experiments.requests import Forward, Jvp, Jvp2, Step, Subject

FEW, MORE = (4, 2), (12, 4)
"""Responses of an evaluation batch, and prompts and responses a prompt of an update."""


def excerpt(point: CheckpointPlan, prompts: int, group: int) -> CheckpointPlan:
    """One shard, one update, one learning rate.

    Args:
        point: The plan.
        prompts: Of the shard.
        group: Prompts of the update batch, and responses to each of them.
    """
    subject, whole, update = point.subject, point.draws[0], point.updates[0]
    draw = whole.of(list(whole.problems[:prompts]))
    here = Forward(subject=subject, rollouts=draw)
    groups = list(dict.fromkeys(whole.problems))[:group]
    problems = [problem for problem in groups for _ in range(group)]
    step = replace(update.step, batch=whole.of(problems))
    eta = next(iter(update.changes))
    small = UpdatePlan(
        name=update.name,
        step=step,
        changes={eta: (replace(here, step=step, eta=eta),)},
        curvature=(Jvp2(subject=subject, rollouts=draw, step=step),)
        if update.curvature
        else (),
        variance=_variance(subject, here, step) if update.variance else (),
    )
    along = Jvp(subject=subject, rollouts=draw, steps=(step,) * len(point.updates))
    return replace(point, draws=(draw,), here=(here,), along=(along,), updates=(small,))


def _variance(
    subject: Subject, here: Forward, step: Step
) -> tuple[Products | OneBatch, ...]:
    return (
        Products(subject=subject, here=(here,), step=step),
        OneBatch(subject=subject, step=step),
    )
