"""Does the gradient's variance fall with the batch as small batches predict?

Both samples are drawn anew at the checkpoint and share no response: small batches give
the prediction, batches of up to 256 responses the variance that is observed.
"""

# Axes: U units, B batches of a size.

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.calculus import inner_products
from entrometer.engine import LocalEngine, quiet
from entrometer.estimators import Estimate, noise_scale, noise_scale_moments
from entrometer.estimators.estimate import jackknife
from entrometer.estimators.kernel import pair_sum
from entrometer.experiments import batches
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.requests import Subject, Worker
from entrometer.experiments.run import run_requests
from entrometer.experiments.update import ascent_of
from entrometer.experiments.update_batch import Batch, sampled_batch
from entrometer.runs import response_seeds
from studies.workbench_methods.rows import Noise, Scale

RESPONSES = 8
"""Responses per prompt, as in the training."""

UNITS = 64
"""Independent batches of each sample: all errors are over these."""

LARGE = 32
"""Prompts of a unit whose gradients are observed: the training's batch."""

PARTS = 4
"""Parts of such a unit, each with its own gradient."""

SMALL = 4
"""Prompts of a unit that predicts: the gradients of 1 prompt and of all 4."""


def noise(
    config: KernelConfig, subject: Subject, name: str, worker: Worker
) -> tuple[list[Noise], list[Scale]]:
    """Return the variances at 64, 128 and 256 responses, and both noise scales."""
    small, large = _small(config, subject, worker)
    trace, _ = noise_scale_moments(small, large, b=1, B=SMALL)
    K = _large(config, subject, worker)
    rows = []
    for merged in (1, 2, 4):
        prompts = merged * LARGE // PARTS
        plain = _merged(K, merged)
        limit = config.max_grad_norm
        c = limit / np.maximum(limit, np.sqrt(plain.diagonal()))
        clipped = c[:, None] * plain * c
        for gradient, products in (("as it is", plain), ("clipped", clipped)):
            observed = _variance(products)
            rows.append(
                Noise(
                    checkpoint=name,
                    gradient=gradient,
                    responses=prompts * RESPONSES,
                    predicted=float(trace.mean()) / prompts,
                    predicted_se=_se(trace) / prompts,
                    observed=observed.value,
                    observed_se=observed.standard_error,
                    square=float(products.diagonal().mean()),
                    clipped=float((c < 1).mean()),
                )
            )
    parts = K.diagonal().reshape(UNITS, PARTS).mean(axis=1)
    wholes = _merged(K, PARTS).diagonal()
    return rows, [
        _scale(name, "small batches", small, large, b=1, B=SMALL),
        _scale(name, "large batches", parts, wholes, b=LARGE // PARTS, B=LARGE),
    ]


def _small(
    config: KernelConfig, subject: Subject, worker: Worker
) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared gradients of 1 prompt, averaged, and of 4, by unit."""
    policy = worker.checkpoint(subject).policy
    one, four = [], []
    for batch in _units(config, subject, worker, SMALL, stream=5):
        K = _products(
            [ascent_of(policy, batch.minibatch(i + 1, SMALL)) for i in range(SMALL)]
        )
        one.append(K.diagonal().mean())
        four.append(K.mean())
    return np.array(one), np.array(four)


def _scale(
    name: str, sample: str, small: np.ndarray, large: np.ndarray, *, b: int, B: int
) -> Scale:
    scale = noise_scale(small, large, b=b, B=B)
    trace, G2 = noise_scale_moments(small, large, b=b, B=B)
    return Scale(
        checkpoint=name,
        sample=sample,
        value=scale.value,
        low=scale.low,
        high=scale.high,
        gradient=float(G2.mean()),
        gradient_se=_se(G2),
        trace=float(trace.mean()),
        trace_se=_se(trace),
    )


def _large(
    config: KernelConfig, subject: Subject, worker: Worker
) -> Float64[np.ndarray, "B B"]:
    """Return the products of the gradients of all parts of all units."""
    policy = worker.checkpoint(subject).policy
    gradients = [
        ascent_of(policy, batch.minibatch(i + 1, PARTS))
        for batch in _units(config, subject, worker, LARGE, stream=6)
        for i in range(PARTS)
    ]
    return _products(gradients)


def _units(
    config: KernelConfig, subject: Subject, worker: Worker, prompts: int, *, stream: int
) -> Iterator[Batch]:
    """Yield independent batches, each with its prompts drawn as training draws them."""
    draws = []
    for unit in range(UNITS):
        rng = np.random.default_rng([stream, config.seed, unit])
        chosen = rng.choice(config.problems, size=prompts, replace=False)
        problems = np.repeat(chosen, RESPONSES)
        seeds = response_seeds(int(rng.integers(2**31)), problems.tolist())
        draws.append(batches.draw(config, subject, problems, seeds))
    run_requests(draws, worker.store, quiet, LocalEngine(), stages={})
    for draw in draws:
        yield sampled_batch(draw.read(worker.store))


def _products(gradients: list[dict[str, Tensor]]) -> Float64[np.ndarray, "B B"]:
    rows = {
        name: torch.stack([g.pop(name) for g in gradients])
        for name in list(gradients[0])
    }
    products: np.ndarray = inner_products(rows, rows).numpy()
    return products


def _merged(
    products: Float64[np.ndarray, "B B"], count: int
) -> Float64[np.ndarray, "_ _"]:
    """Return the products of the means of `count` neighbouring gradients."""
    n = len(products) // count
    means: np.ndarray = products.reshape(n, count, n, count).mean(axis=(1, 3))
    return means


def _variance(products: Float64[np.ndarray, "B B"]) -> Estimate:
    """Return the mean square of a gradient less that of the expected one."""
    n, units = len(products), np.repeat(np.arange(UNITS), len(products) // UNITS)
    norms = pair_sum(np.diag(products.diagonal()), units)
    all_pairs = pair_sum(products, units)
    rest = n - n // UNITS

    def variance(squares: np.ndarray, pairs: np.ndarray, n: int) -> np.ndarray:
        return np.asarray(squares / n - (pairs - squares) / (n * (n - 1)))

    whole = variance(np.array(norms.whole), np.array(all_pairs.whole), n)
    return jackknife(float(whole), variance(norms.without, all_pairs.without, rest))


def _se(x: Float64[np.ndarray, " U"]) -> float:
    return float(x.std(ddof=1) / np.sqrt(x.size))
