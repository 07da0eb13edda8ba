"""Result tables of a measurement, from the tables of its passes; needs no model."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    Linearised,
    entropy,
    entropy_statistics,
    linear_regime,
    power_law,
    two_batch_variance,
    u_statistic,
)
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import CheckpointPlan
from entrometer.experiments.measure.studies import convergence, errors, needed
from entrometer.experiments.measure.tables import (
    PERS,
    EvaluationBatch,
    UpdateEffect,
    read_evaluation_batch,
    read_update_effect,
)
from entrometer.experiments.next_batches.collect import (
    batch_changes,
    expected_changes,
    read_effects,
)
from entrometer.experiments.result_fields import estimate_fields, update_signal
from entrometer.policy.loading import load_tokenizer
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.measure import Change, MeasureTables, Sample, Term, Variance
from entrometer.runs.tables.signal import UpdateSignal
from entrometer.tasks import task
from entrometer.tasks.own import Own, OwnProblem

AGREED = 0.05
"""Largest relative difference at which prediction and change agree."""

LINEAR = 0.01
r"""Share of $\eta^*$ up to which a change counts as linear in the fit of its power."""


def collect(
    config: MeasureConfig, points: Sequence[CheckpointPlan], store: Path
) -> MeasureTables:
    """Return all tables, from a store that has every pass of the plan."""
    tables = MeasureTables()
    for point in points:
        batch = read_evaluation_batch(point, store)
        tables.convergence.extend(convergence(config, batch))
        tables.samples.extend(samples(config, batch))
        for d in range(len(point.updates)):
            effect = read_update_effect(batch, d, store)
            tables.signal.append(signal(effect, store))
            tables.changes.extend(changes(effect))
            tables.terms.extend(terms(effect))
            tables.variances.extend(variances(effect, store))
            tables.needed.extend(needed(effect))
            tables.errors.extend(errors(config, effect))
        eta = nearest_eta(point.learning_rate, sorted(point.updates[0].changes))
        effects = read_effects(point, eta, store)
        tables.expected.extend(expected_changes(effects))
        tables.batches.extend(batch_changes(effects))
    return tables


def signal(effect: UpdateEffect, store: Path) -> UpdateSignal:
    """Return the groups with signal, and momentum's part of the predicted change."""
    eta = nearest_eta(effect.batch.point.learning_rate, list(effect.there))
    # Weighted per decision: no fitted baseline, and less noise than whole sequences.
    per_decision = effect.batch.estimators[1]
    history = eta * effect.slope(per_decision, "token", effect.history)
    return update_signal(
        effect.plan.step.read_batch(store).groups_with_signal,
        history.estimate(),
        checkpoint=effect.batch.point.name,
        update=effect.plan.name,
        eta=eta,
        predicted=(eta * effect.slope(per_decision, "token")).value,
    )


def nearest_eta(learning_rate: float, etas: list[float]) -> float:
    """Return the learning rate of a sweep that is nearest to the training's."""
    # A training whose schedule has ended has a learning rate of 0: then the first.
    return min(etas, key=lambda eta: abs(eta - (learning_rate or etas[0])))


def changes(effect: UpdateEffect) -> Iterator[Change]:
    """Yield a row per estimator, per token or sequence, and per learning rate."""
    for estimator, per in product(effect.batch.estimators, PERS):
        slope = effect.slope(estimator, per)
        second_order = effect.slope_and_curvature(estimator, per)
        for eta, there in effect.there.items():
            observed = effect.change(estimator, per, there)
            # Scaled and subtracted as estimates: their errors pair prompt by prompt.
            linear = eta * slope
            quadratic, quadratic_se = math.nan, math.nan
            if second_order is not None:
                # Estimates subtract but do not add, hence the two minus signs.
                bend = -(eta**2) / 2 * second_order[1].padded(slope.prompt)
                both = linear - bend
                quadratic, quadratic_se = both.value, both.standard_error
            yield Change(
                **effect.labels(estimator, per),
                eta=eta,
                **estimate_fields("observed", observed.estimate()),
                **estimate_fields("linear", linear.estimate()),
                quadratic=quadratic,
                quadratic_se=quadratic_se,
                **estimate_fields("error", (linear - observed).estimate()),
                effective_samples=observed.effective_samples,
                largest_weight=observed.largest_weight,
                prompts=observed.prompt.size,
                responses=effect.batch.responses.count,
            )


def terms(effect: UpdateEffect) -> Iterator[Term]:
    """Yield slope, curvature and linear range by estimator, per token or sequence."""
    batch, etas = effect.batch, np.array(list(effect.there))
    for estimator, per in product(batch.estimators, PERS):
        h = entropy(entropy_statistics(batch.responses, batch.here.H), per=per)
        slope = effect.slope(estimator, per)
        second_order = effect.slope_and_curvature(estimator, per)
        curvature = None if second_order is None else second_order[1]
        star = None if second_order is None else linear_regime(*second_order)
        observed = [effect.change(estimator, per, x) for x in effect.there.values()]
        value = np.array([x.value for x in observed])
        # A change of exactly 0 has no relative error; NaN and inf count as unusable.
        with np.errstate(invalid="ignore", divide="ignore"):
            relative = np.abs(etas * slope.value - value) / np.abs(value)
        fitted = _linear_range(etas, relative, star.value if star else math.nan)
        law = power_law(etas[fitted], value[fitted])
        rounding = effect.rounding(estimator, per)
        yield Term(
            **effect.labels(estimator, per),
            step=batch.point.steps,
            learning_rate=batch.point.learning_rate,
            **estimate_fields("entropy", h.estimate()),
            **estimate_fields("slope", slope.estimate()),
            curvature=curvature.value if curvature else math.nan,
            curvature_se=curvature.standard_error if curvature else math.nan,
            curvature_prompts=curvature.prompt.size if curvature else 0,
            eta_star=star.value if star else math.nan,
            eta_star_low=star.low if star else math.nan,
            eta_star_high=star.high if star else math.nan,
            power=law.power,
            power_se=law.standard_error,
            power_r2=law.r2,
            power_from=float(etas[fitted].min(initial=np.inf)),
            power_to=float(etas[fitted].max(initial=-np.inf)),
            smallest_eta=_smallest(etas, relative),
            halved_eta=_halved(etas, observed, batch.responses.count),
            # A mean that happens to be near 0 would understate the rounding.
            floor=math.nan
            if rounding is None
            else max(abs(rounding.value), rounding.standard_error),
        )


def _linear_range(etas: np.ndarray, relative: np.ndarray, star: float) -> np.ndarray:
    """Return which learning rates are inside the linear regime and above rounding."""
    # Comparisons with NaN are False: an unknown end does not exclude anything.
    return ~((etas > LINEAR * star) | (etas < _smallest(etas, relative)))


def _smallest(etas: np.ndarray, relative: np.ndarray) -> float:
    """Return the lower end of the highest run of learning rates that agree."""
    usable = math.nan
    for eta, error in zip(etas[::-1], relative[::-1], strict=True):
        if error <= AGREED:
            usable = float(eta)
        elif not math.isnan(usable):
            break
    return usable


def _halved(etas: np.ndarray, observed: list[Linearised], count: int) -> float:
    """Return where the effective sample falls to half of the responses."""
    share = np.array([x.effective_samples for x in observed]) / count
    below = np.flatnonzero(share < 0.5)
    if below.size == 0 or below[0] == 0:
        return math.nan if below.size == 0 else float(etas[0])
    i = below[0]
    t = (share[i - 1] - 0.5) / (share[i - 1] - share[i])
    # Linear in log η, because a sweep spans decades.
    return float(np.exp((1 - t) * np.log(etas[i - 1]) + t * np.log(etas[i])))


def variances(effect: UpdateEffect, store: Path) -> Iterator[Variance]:
    """Yield one row, the slope's variance by batches, if it was measured."""
    if not effect.plan.variance:
        return
    products, one_batch = (
        np.stack(list(read_columns(request.path(store)).values()), axis=1)
        for request in effect.plan.variance
    )
    V = two_batch_variance(products)
    # Its residuals have B(B - 3)/2 degrees of freedom: none with three prompts.
    U = u_statistic(one_batch) if len(one_batch) > 3 else None
    yield Variance(
        **effect.names,
        evaluation_prompts=products.shape[0],
        update_prompts=products.shape[1],
        value=float(products.mean()),
        given_update=V.given_update,
        evaluation=V.evaluation,
        update_batch=V.update,
        both=V.both,
        one_batch=-U.value if U else math.nan,
        one_batch_hoeffding_se=U.hoeffding_standard_error if U else math.nan,
        one_batch_jackknife_se=math.sqrt(U.jackknife_variance) if U else math.nan,
    )


def samples(config: MeasureConfig, batch: EvaluationBatch) -> Iterator[Sample]:
    """Yield text, length, entropy and reward of each response, one row each."""
    r, T = batch.responses, batch.responses.length
    H, S = r.total(batch.here.H) / T, r.total(batch.here.S) / T
    judge = task(config.task, **config.task_settings())
    problems = judge.problems(config.split, config.problems)
    prompts = [judge.prompt(p) for p in problems]
    if isinstance(judge, Own):
        # Recorded prompts are token ids.
        subject = batch.point.subject
        decode = load_tokenizer(subject.path, subject.base).decode
        prompts = [
            decode(list(p.tokens)) if isinstance(p, OwnProblem) and p.tokens else text
            for p, text in zip(problems, prompts, strict=True)
        ]
    for i, text in enumerate(batch.rollouts.text):
        prompt = int(r.prompt[i])
        yield Sample(
            checkpoint=batch.point.name,
            prompt=prompt,
            prompt_text=prompts[prompt],
            response_text=text,
            tokens=int(T[i]),
            entropy=float(H[i]),
            surprisal=-float(S[i]),
            reward=float(batch.rollouts.reward[i]),
        )
