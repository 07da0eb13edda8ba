"""Three importance weightings of the change of entropy per sequence: bias, variance.

The question is what self-normalised weights would gain. On the enumerated policy the
truth and the variance per response are exact, and the bias of n responses is simulated.
On the workbench the same three estimators see the same responses.
"""

# Axes: R simulations, N responses of a simulation.

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.enumerated import Enumerated
from benchmarks.variance import STEPS as SMALL_AND_LARGE
from benchmarks.variance import heavy_tailed, variance
from entrometer.estimators import (
    Linearised,
    PromptSums,
    Responses,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    sample_size_ratio,
)
from entrometer.estimators.estimate import linearise
from studies.workbench_methods.changes import Effects, parts
from studies.workbench_methods.rows import Simulated, Weighed

STEPS = SMALL_AND_LARGE | {"middle step": 0.05}
"""Lengths of the step on the enumerated policy."""

SIZES = (64, 256, 1024)
SIMULATIONS = 4000
SMALL = 64
"""Prompts of a small batch, whose bias is looked for on the workbench."""


def self_normalised(sums: PromptSums) -> Linearised:
    r"""Return $\sum w\sum_k H_k(\eta)/\sum w - \sum\sum_k H_k/n$, per sequence.

    `sums` are those of the plain sequence weights, whose change divides by n instead.
    """
    dN, H, w, n = (sums.total(c) for c in ("dN", "H", "w", "responses"))
    N = dN + H
    slopes = {"dN": 1 / w, "H": 1 / w - 1 / n, "w": -N / w**2, "responses": H / n**2}
    return linearise(sums, N / w - H / n, slopes)


def plain(sums: PromptSums) -> Linearised:
    """Return the unbiased change per sequence."""
    return entropy_change(sums, per="sequence")


ESTIMATORS: dict[str, tuple[Weighting, Callable[[PromptSums], Linearised]]] = {
    "plain sequence weights": (Weighting.SEQUENCE, plain),
    "self-normalised sequence weights": (Weighting.SEQUENCE, self_normalised),
    "weights per decision": (Weighting.PER_DECISION, plain),
}


def simulated(seed: int = 0) -> Iterator[Simulated]:
    """Yield bias and deviation on the enumerated policy with heavy-tailed lengths."""
    world = heavy_tailed()
    for step, eta in sorted(STEPS.items(), key=lambda item: item[1]):
        sums = _sums(world.responses, world.here, world.tables(eta))
        whole = {name: world.expectation(sums[name]) for name in ESTIMATORS}
        truth = plain(whole["plain sequence weights"]).value
        rng = np.random.default_rng(seed)
        for size in SIZES:
            drawn = _drawn(world, sums, rng, size)
            for name, (_, estimate) in ESTIMATORS.items():
                exact = estimate(whole[name])
                error = drawn[name] - truth
                w = whole[name]
                yield Simulated(
                    step=step,
                    estimator=name,
                    responses=size,
                    truth=truth,
                    bias=float(error.mean()),
                    bias_se=float(error.std(ddof=1) / np.sqrt(error.size)),
                    deviation=float(error.std(ddof=1)),
                    exact=float(np.sqrt(variance(world, exact) / size)),
                    effective=w.total("w") ** 2 / w.total("w2"),
                )


def _sums(r: Responses, here: Tables, there: Tables) -> dict[str, PromptSums]:
    return {
        name: change_statistics(r, here, there, weighting=weighting)
        for name, (weighting, _) in ESTIMATORS.items()
    }


def _drawn(
    world: Enumerated, sums: dict[str, PromptSums], rng: np.random.Generator, size: int
) -> dict[str, np.ndarray]:
    """Return each estimator on the same simulated samples."""
    values: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for _ in range(SIMULATIONS):
        rows_N = world.draw(rng, size)
        for name, (_, estimate) in ESTIMATORS.items():
            s = sums[name]
            # The sum of a sample as if it were one prompt: only values are used.
            whole = s.sums[rows_N].sum(axis=0, keepdims=True)
            values[name].append(
                estimate(PromptSums(s.columns, np.zeros(1, np.int64), whole)).value
            )
    return {name: np.array(x) for name, x in values.items()}


def weighed(effects: Effects) -> Iterator[Weighed]:
    """Yield each estimator for each update at the training's learning rate."""
    r, here, rate = effects.responses, effects.here, effects.learning_rate
    for number, update in enumerate(effects.updates):
        sums = _sums(r, here, update.there[rate])
        # No other update is judged on these prompts.
        own = {n: parts(s, len(effects.updates))[number] for n, s in sums.items()}
        parted = {name: f(own[name]) for name, (_, f) in ESTIMATORS.items()}
        unbiased, *_ = parted.values()
        small = _small(own)
        for name, (_, estimate) in ESTIMATORS.items():
            change = estimate(sums[name])
            bias = small[name] - small["plain sequence weights"]
            yield Weighed(
                checkpoint=effects.checkpoint,
                update=update.name,
                estimator=name,
                change=change.value,
                change_se=change.standard_error,
                factor=sample_size_ratio(parted[name], unbiased).value,
                bias=float(bias.mean()),
                effective=change.effective_samples / r.count,
            )


def _small(sums: dict[str, PromptSums]) -> dict[str, np.ndarray]:
    """Return each estimator on the same disjoint small batches."""
    return {
        name: np.array(
            [
                estimate(part).value
                for part in parts(sums[name], sums[name].prompts // SMALL)
            ]
        )
        for name, (_, estimate) in ESTIMATORS.items()
    }
