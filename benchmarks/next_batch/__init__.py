"""Intervals for the expected change and for the next batch, and false advice.

A population of update batches stands for a training, so the expected change of a step
is known exactly; so are the gradients of entropy and reward, by enumeration.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Check, Report
from benchmarks.next_batch.simulation import FOLDS, Responses
from benchmarks.next_batch.world import LOSSES, World
from entrometer.estimators import TwoWay, advised, two_way

SIMULATIONS = 2000
PROMPTS = 256
BATCHES = (4, 8, 16)
NULL_LOSSES, COMPARISONS = 18, 400
HORIZONS = (8, 32)


def run() -> Report:
    world = World()
    responses = Responses(world)
    checks: list[Check] = []
    figures: dict[str, Any] = {"power": {}, "conditional": {}, "coverage": {}}
    for K in BATCHES:
        for (loss, objective), shares in _coverage(world, responses, K).items():
            name = f"K={K} {loss} {objective}"
            figures["coverage"][name] = [round(float(x), 4) for x in shares]
            most = 0.97 if objective == "entropy" else 1.0
            for what, share in zip(("expected", "next"), shares, strict=False):
                label = f"covers the {what} change, {name}"
                checks.append(Check(label, float(share), at_least=0.93, at_most=most))
    for K in (8, 16):
        found = _advice(world, responses, K)
        checks.append(Check(f"false advice, K={K}", found.false, at_most=0.05))
        figures["conditional"][f"false advice, K={K}"] = found.conditional
        figures["power"][f"K={K}"] = found.power
    for horizon in HORIZONS:
        error, covered = _rates(world, responses, horizon)
        checks += [
            Check(f"error of the rate over {horizon} steps", error, at_most=0.1),
            Check(
                f"covers the rate over {horizon} steps, K=16",
                covered,
                at_least=0.92,
                at_most=0.98,
            ),
        ]
    return Report(checks, figures)


def _rates(world: World, responses: Responses, horizon: int) -> tuple[float, float]:
    """Error of gains by the whole population, and coverage by 16 batches.

    The truth are real continuations at fixed parameters. The error is relative: the
    root of the mean square over that of the gains.
    """
    rng, here = np.random.default_rng([17, horizon]), world.trained[0]
    g, plain = world.gradients["entropy"], LOSSES[0]
    everything = np.arange(world.population)
    true, found, hits = [], [], []
    base = world.continued(plain, horizon)
    whole = world.rates(plain, everything, horizon).mean(axis=0)
    for loss in LOSSES[1:]:
        truth = float((world.continued(loss, horizon) - base) @ g)
        rate = world.rates(loss, everything, horizon).mean(axis=0)
        true.append(truth)
        found.append(float((rate - whole) @ g))
        for _ in range(SIMULATIONS // 10):
            rows = here.draw(rng, PROMPTS).reshape(FOLDS, -1)
            drawn = rng.integers(world.population, size=16)
            gains = world.rates(loss, drawn, horizon) - world.rates(
                plain, drawn, horizon
            )
            hits.append(_judged(responses, rows, gains).expected.covers(truth))
    error = np.linalg.norm(np.subtract(found, true)) / np.linalg.norm(true)
    return float(error), float(np.mean(hits))


def _coverage(
    world: World, responses: Responses, K: int
) -> dict[tuple[str, str], np.ndarray]:
    """Shares of simulations in which intervals hold the truth.

    Of the expected change, of the next batch's, and of the expected change by the
    interval of a single batch.
    """
    rng, here = np.random.default_rng([11, K]), world.trained[0]
    hits: dict[tuple[str, str], list[tuple[bool, bool, bool]]] = {}
    for _ in range(SIMULATIONS):
        rows = here.draw(rng, PROMPTS).reshape(FOLDS, -1)
        drawn = rng.integers(world.population, size=K)
        next_one = rng.integers(world.population)
        for loss in LOSSES:
            V = _gain(world, loss)
            for objective, g in world.gradients.items():
                slopes = responses.slopes(objective, rows, V[drawn])
                both = two_way(slopes.cells, prompts=PROMPTS)
                truth, ahead = V.mean(axis=0) @ g, V[next_one] @ g
                hits.setdefault((loss, objective), []).append(
                    (
                        both.expected.covers(truth),
                        bool(both.next_low <= ahead <= both.next_high),
                        slopes[0].covers(truth),
                    )
                )
    return {key: np.mean(found, axis=0) for key, found in hits.items()}


def _gain(world: World, loss: str) -> np.ndarray:
    """The steps of plain; of another loss, their paired difference from plain's."""
    plain = world.directions[LOSSES[0]]
    return plain if loss == LOSSES[0] else world.directions[loss] - plain


class Advice(NamedTuple):
    """Shares of simulated comparisons that advise a loss."""

    false: float  #: With losses that all equal plain.
    conditional: float  #: The same by the intervals of a single batch.
    power: dict[str, float]  #: Of real gains, among losses that equal plain.


def _advice(world: World, responses: Responses, K: int) -> Advice:
    """Compare 18 losses that equal plain, and real gains among them.

    A loss that equals plain makes plain's steps of other batches: its expected gain is
    exactly 0, whatever the batches at hand say. Ranked as `compare` does: by the rate
    over 32 steps.
    """
    rng, here = np.random.default_rng([13, K]), world.trained[0]
    plain, horizon = LOSSES[0], 32
    false = conditional = 0
    g = world.gradients["entropy"]
    real = [x for x in LOSSES[1:] if _gain(world, x).mean(axis=0) @ g > 0]
    found = dict.fromkeys(real, 0)
    steps = world.directions[plain]
    for _ in range(COMPARISONS):
        rows = here.draw(rng, PROMPTS).reshape(FOLDS, -1)
        drawn = rng.integers(world.population, size=K)
        base = world.rates(plain, drawn, horizon)
        others = [rng.integers(world.population, size=K) for _ in range(NULL_LOSSES)]
        results = [
            _judged(responses, rows, world.rates(plain, o, horizon) - base)
            for o in others
        ]
        singly = [
            responses.slopes("entropy", rows, steps[o[:1]] - steps[drawn[:1]])[0]
            for o in others
        ]
        false += any(_raises(results))
        conditional += any(x.low > 0 for x in singly)
        gains = [
            _judged(responses, rows, world.rates(loss, drawn, horizon) - base)
            for loss in real
        ]
        # Among as many others that are equal to plain.
        chosen = _raises([*gains, *results[: NULL_LOSSES - len(gains)]])
        for loss, is_chosen in zip(real, chosen, strict=False):
            found[loss] += is_chosen
    power = {loss: count / COMPARISONS for loss, count in found.items()}
    return Advice(false / COMPARISONS, conditional / COMPARISONS, power)


def _judged(responses: Responses, rows: np.ndarray, gains: np.ndarray) -> TwoWay:
    cells = responses.slopes("entropy", rows, gains).cells
    return two_way(cells, prompts=PROMPTS)


def _raises(results: list[TwoWay]) -> list[bool]:
    passed = advised([r.p_value for r in results])
    return [ok and r.expected.value > 0 for ok, r in zip(passed, results, strict=True)]
