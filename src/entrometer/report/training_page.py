"""Training runs on a report page: where entropy, reward and pass@k went."""

import math

import numpy as np

from entrometer.report import training
from entrometer.report.cards import estimate_card, whole_percent
from entrometer.report.kinds import Answer, Card, PageParts, Section
from entrometer.report.numbers import Interval, number
from entrometer.report.read import TrainingRun, TrainingTables
from entrometer.report.training import (
    Estimates,
    column,
    entropy_of,
    ks,
    noise_of,
    reward_of,
)

_ENDS = ("", "_low", "_high")


def answer(run: TrainingRun) -> Answer | None:
    """Return how entropy and reward changed from the first logged steps to the last."""
    steps = run.tables.metrics["step"]
    if not steps.size:
        return None
    entropy, reward = _ends(entropy_of(run)), _ends(reward_of(run))
    cards = []
    title, text = f"{int(steps.max()):,} steps", ""
    if entropy:
        first, last = entropy
        drop = 1 - last.value / first.value if first.value > 0 else math.nan
        way = "fell" if drop > 0 else "rose"
        title = f"entropy {way} by {whole_percent(abs(drop))} in {title}"
        text = (
            f"Entropy of the update batches went from {number(first.value)} to "
            f"{number(last.value)} nats per token."
        )
        label = f"entropy of the last update batch, {number(first.value)} at first"
        cards.append(estimate_card(last, "nats per token", label, signed=False))
    if reward:
        first, last = reward
        text += f" Mean reward went from {number(first.value)} to {number(last.value)}."
        label = f"mean reward of the last update batch, {number(first.value)} at first"
        cards.append(estimate_card(last, "", label, signed=False))
    return Answer(title, text.strip(), (*cards, *_evaluated(run), *_noise(run)))


def _ends(estimates: Estimates) -> tuple[Interval, Interval] | None:
    value, se = estimates
    known = np.flatnonzero(np.isfinite(value))
    if not known.size:
        return None
    # The trainer logs no degrees of freedom: the interval is the normal one.
    first, last = (
        Interval(*(float(value[i] + x * se[i]) for x in (0.0, -1.96, 1.96)))
        if math.isfinite(se[i])
        else Interval(float(value[i]), math.nan, math.nan)
        for i in (known[0], known[-1])
    )
    return first, last


def _evaluated(run: TrainingRun) -> list[Card]:
    evaluation = run.tables.evaluation or {}
    every = ks(evaluation)
    if not every or not len(evaluation["step"]):
        return []
    k = every[0]
    ends = (float(column(evaluation, f"pass_at_{k}{x}")[-1]) for x in _ENDS)
    label = f"pass@{k} of held-out problems at step {number(evaluation['step'][-1])}"
    return [estimate_card(Interval(*ends), "", label, signed=False)]


def _noise(run: TrainingRun) -> list[Card]:
    scale, se = noise_of(run)
    known = np.flatnonzero(scale > 0)
    if not known.size:
        return []
    x, error = float(scale[known[-1]]), float(se[known[-1]])
    ends = (x - 1.96 * error, x + 1.96 * error)
    label = "gradient noise scale: smaller updates are mostly noise"
    return [estimate_card(Interval(x, *ends), "prompt groups", label, signed=False)]


PARTS = PageParts[TrainingTables](
    answer=answer,
    sections=(
        Section(
            "Over the steps",
            figures={
                "entropy": training.entropy,
                "held-out problems": training.passes,
                "reward": training.reward,
            },
        ),
        Section("Checkpoints", tables=(training.evaluations,)),
        Section(
            "Diagnostics of the estimators",
            figures={
                "noise scale": training.noise,
                "prediction of single updates": training.prediction,
            },
            folded=True,
        ),
    ),
)
