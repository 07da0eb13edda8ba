"""Rows on the training's next batches, from the tables that passes wrote."""

# Axes: K update batches, Q folds of the evaluation batch, G gradients.

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    Estimate,
    Influence,
    TwoWay,
    advised,
    agreement,
    pseudo_values,
    token_influence,
    two_way,
)
from entrometer.experiments.next_batches.plan import NextBatches
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import by_objective
from entrometer.experiments.token_influence.halves import (
    OBJECTIVES,
    by_half,
    contributions,
)
from entrometer.experiments.token_influence.requests import FoldGradient
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.next_batches import (
    ONE_STEP,
    BatchChange,
    ExpectedChange,
    GainAgreement,
)


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of the steps of some losses on the evaluation batch, to first order."""

    checkpoint: str
    eta: float
    names: Sequence[str]
    """Names of the update batches."""
    losses: Sequence[str]
    """Names of the losses; the first is plain."""
    evaluations: Sequence[Evaluation]
    """Evaluation batch at each update batch's policy: one for all at a checkpoint."""
    products: Sequence[dict[str, np.ndarray]]
    """Columns of `LossProducts`, by loss."""
    groups: Sequence[tuple[int, int]]
    """Groups with signal and all groups of each batch."""
    effective_share: Sequence[float]
    horizons: tuple[int, ...] = ()
    """Horizons of the rates."""

    @property
    def batches(self) -> int:
        """Number of update batches K."""
        return len(self.names)

    @property
    def prompts(self) -> int:
        """Number of evaluation prompts."""
        return self.evaluations[0].prompts

    def influence(self, columns: Sequence[np.ndarray], objective: str) -> Influence:
        """Return the change along a direction per batch, given its G products."""
        rows = [
            _influence(evaluation, self.eta * column, objective)
            for evaluation, column in zip(self.evaluations, columns, strict=True)
        ]
        values, errors, folds = (
            np.concatenate([getattr(row, name) for row in rows])
            for name in ("value", "standard_error", "fold_influence")
        )
        first = rows[0]
        return Influence(
            values, errors, folds, first.folds, first.prompts, first.responses
        )

    def elsewhere(self, loss: int, objective: str) -> float:
        """Return a loss's mean gain by all batches but the first, on the odd folds."""
        columns = self.table(loss, 0, ONE_STEP)[1:]
        split = [by_objective(self.eta * column) for column in columns]
        parts = np.stack([s[objective] for s in split])
        length = np.stack([s["length"] for s in split])
        halved = by_half(self.evaluations[0], objective, parts, length, which=1)
        return float(halved.value.mean())

    def table(
        self, loss: int, against: int | None, horizon: int
    ) -> list[Float[np.ndarray, " G"]]:
        """Return one column of products per batch, minus those of another loss.

        For a horizon beyond one step, the jackknife's pseudo-values.
        """
        K = self.batches
        of, minus = self.products[loss], None
        if against is not None:
            minus = self.products[against]

        def column(name: str) -> np.ndarray:
            x = of[name]
            return x if minus is None else x - minus[name]

        if horizon == ONE_STEP:
            return [column(f"step_{b}") for b in range(K)]
        rate = column(f"rate_{horizon}")
        without = np.stack([column(f"rate_{horizon}_without_{b}") for b in range(K)])
        return list(pseudo_values(rate, without))

    def expected(
        self, loss: int, against: int | None, objective: str, horizon: int
    ) -> TwoWay:
        """Return the expected change of a loss, or its gain over another."""
        influence = self.influence(self.table(loss, against, horizon), objective)
        return two_way(influence.cells, prompts=influence.prompts)

    def momentum(self, loss: int, objective: str) -> Estimate:
        """Return the part of a loss's expected change by one step that momentum makes.

        Batches share momentum itself; they differ by their second moments.
        """
        columns = [self.products[loss][f"history_{b}"] for b in range(self.batches)]
        cells = self.influence(columns, objective).cells
        return two_way(cells, prompts=self.prompts).expected

    def per_nat(self, loss: int, against: int | None) -> Estimate:
        r"""Return the change in reward per nat of the change in entropy, by one step.

        $r = \bar J/\bar h$ over all batches, by the delta method: its cells are
        $r + (J - r\,h)/\bar h$. NaN unless the interval of $\bar h$ leaves 0 out.
        """
        columns = self.table(loss, against, ONE_STEP)
        h, J = (self.influence(columns, x).cells for x in ("entropy", "reward"))
        entropy = two_way(h, prompts=self.prompts).expected
        if not entropy.low * entropy.high > 0:
            return replace(entropy, value=np.nan, low=np.nan, high=np.nan)
        r = J.mean() / h.mean()
        cells = r + (J - r * h) / h.mean()
        return two_way(cells, prompts=self.prompts).expected


def _influence(batch: Evaluation, column: np.ndarray, objective: str) -> Influence:
    split = by_objective(column)
    parts, length = split[objective][None], split["length"].sum()[None]
    whole = contributions(batch, objective, parts, length)
    return token_influence(
        whole, prompts=batch.prompts, responses=batch.responses.count
    )


@runtime_checkable
class Planned(Protocol):
    """What is planned for a checkpoint, as far as the next batches are concerned."""

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint."""

    @property
    def gradients(self) -> tuple[FoldGradient, ...]:
        """Gradients of the evaluation batch, by fold."""

    @property
    def next_batches(self) -> NextBatches | None:
        """Passes over the batches; None without a verdict on the next ones."""


def read_effects(point: Planned, eta: float, store: Path) -> Effects | None:
    """Return the effects of the batches' steps at a learning rate; None without any."""
    plan = point.next_batches
    if plan is None:
        return None
    # The first loss: what another one drops is no lack of signal.
    batches = [g.read_batches(store)[0] for g in plan.gradients]
    evaluation = point.gradients[0].read_batch(store)
    return Effects(
        checkpoint=point.checkpoint,
        eta=eta,
        names=[batch.name for batch in plan.batches],
        losses=plan.losses,
        evaluations=[evaluation] * len(plan.batches),
        horizons=plan.products[0].horizons,
        products=[read_columns(p.path(store)) for p in plan.products],
        groups=[b.groups_with_signal for b in batches],
        effective_share=[b.effective_share for b in batches],
    )


def batch_changes(effects: Effects | None) -> Iterator[BatchChange]:
    """Yield a row per loss, objective and batch."""
    if effects is None:
        return
    for loss, of_loss in enumerate(effects.losses):
        columns = effects.products[loss]
        for objective in OBJECTIVES:
            steps, history = (
                effects.influence(
                    [columns[f"{x}_{b}"] for b in range(effects.batches)],
                    objective,
                )
                for x in ("step", "history")
            )
            for b, batch in enumerate(effects.names):
                with_signal, groups = effects.groups[b]
                yield BatchChange(
                    checkpoint=effects.checkpoint,
                    batch=batch,
                    loss=of_loss,
                    objective=objective,
                    eta=effects.eta,
                    groups=groups,
                    groups_with_signal=with_signal,
                    effective_share=effects.effective_share[b],
                    **estimate_fields("change", steps[b]),
                    momentum=float(history.value[b]),
                )


def expected_changes(effects: Effects | None) -> Iterator[ExpectedChange]:
    """Yield expected changes of every loss, then gains over the first, at horizons."""
    if effects is None:
        return
    horizons = (ONE_STEP, *effects.horizons)
    losses = range(len(effects.losses))
    for horizon in horizons:
        for objective in OBJECTIVES:
            # A rate is at the present parameters: entropy keeps it for many steps,
            # reward does not.
            if objective == "reward" and horizon != ONE_STEP:
                continue
            yield from _judged(effects, [(i, None) for i in losses], objective, horizon)
            gains: list[tuple[int, int | None]] = [(i, 0) for i in losses[1:]]
            yield from _judged(effects, gains, objective, horizon)


def _judged(
    effects: Effects,
    pairs: Sequence[tuple[int, int | None]],
    objective: str,
    horizon: int,
) -> Iterator[ExpectedChange]:
    names, rows = effects.losses, []
    for loss, against in pairs:
        found = effects.expected(loss, against, objective, horizon)
        variance = found.expected.standard_error**2
        per_nat = (np.nan,) * 3
        momentum = None
        if against is None and horizon == ONE_STEP:
            momentum = effects.momentum(loss, objective)
        if objective == "reward":
            r = effects.per_nat(loss, against)
            per_nat = (r.value, r.low, r.high)
        rows.append(
            ExpectedChange(
                checkpoint=effects.checkpoint,
                loss=names[loss],
                against="" if against is None else names[against],
                objective=objective,
                eta=effects.eta,
                horizon=horizon,
                batches=effects.batches,
                batches_with_signal=sum(bool(some) for some, _ in effects.groups),
                prompts=found.expected.prompts,
                **estimate_fields("expected", found.expected),
                **_next(found, horizon),
                p_value=found.p_value,
                passes=False,
                batch_share=found.batch_variance / found.batches / variance
                if variance > 0
                else np.nan,
                per_nat=per_nat[0],
                per_nat_low=per_nat[1],
                per_nat_high=per_nat[2],
                **estimate_fields("momentum", momentum),
            )
        )
    # Losses that weigh every token as plain does have no gain to test.
    tested = [row for row in rows if row.known]
    passed = iter(advised([row.p_value for row in tested]))
    for row in rows:
        yield replace(row, passes=next(passed)) if row.known else row


def gain_agreement(
    effects: Effects | None, predicted: Mapping[str, Mapping[str, float]]
) -> Iterator[GainAgreement]:
    """Yield per objective how predicted gains agree with those of the other batches.

    `predicted` has the gains by objective and loss; those that are not there equal
    plain. Intervals are over losses, each with all its strengths.
    """
    if effects is None or effects.batches < 3:
        return
    places = {name: i for i, name in enumerate(effects.losses)}
    for objective, gains in predicted.items():
        names = [n for n in gains if n in places and math.isfinite(gains[n])]
        p = np.array([gains[n] for n in names])
        o = np.array([effects.elsewhere(places[n], objective) for n in names])
        # A loss that equals another at this checkpoint is not another one.
        _, first = np.unique(np.stack([p, o]), axis=1, return_index=True)
        p, o = p[first], o[first]
        kinds = [names[i].partition(":")[0] for i in first]
        if len(set(kinds)) < _FEWEST or not np.isfinite(o).all():
            continue
        found = agreement(p, o, kinds)
        yield GainAgreement(
            checkpoint=effects.checkpoint,
            objective=objective,
            losses=p.size,
            **{
                name + end: value
                for name, values in found._asdict().items()
                for end, value in zip(("", "_low", "_high"), values, strict=True)
            },
        )


_FEWEST = 4
"""Fewest losses for whose agreement there is an interval."""


def _next(found: TwoWay, horizon: int) -> dict[str, Any]:
    # A rate is a mean over many batches: no single batch has it.
    one = horizon == ONE_STEP
    ends = (found.next_low, found.next_high) if one else (np.nan, np.nan)
    return dict(zip(("next_low", "next_high"), ends, strict=True))
