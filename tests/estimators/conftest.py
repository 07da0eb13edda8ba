"""A policy whose every response is known, and batches drawn from it."""

# Axes: N responses, K tokens of all responses, P prompts.

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.enumerated import Enumerated, sampled
from entrometer import oracles
from entrometer.estimators import (
    Linearised,
    PromptSums,
    Responses,
    Weighting,
)


@dataclass(frozen=True, eq=False)
class Batch:
    """Responses drawn from the policy, two to each prompt id."""

    responses: Responses
    rows: np.ndarray
    """Place of each response in the enumeration."""
    index: np.ndarray
    """Place of each token in the columns of the enumeration."""

    @classmethod
    def drawn(cls, world: Enumerated, seed: int, prompts: int = 24) -> "Batch":
        rows = world.draw(np.random.default_rng(seed), 2 * prompts)
        laid, index = world.layout(rows)
        responses = Responses(np.repeat(np.arange(prompts), 2), laid.start)
        return cls(responses, rows, index)

    def of(self, columns):
        """The same columns, on the tokens that were drawn."""
        if columns is None:
            return None
        return type(columns)(*(column[self.index] for column in columns))


@pytest.fixture(scope="session")
def world() -> Enumerated:
    return Enumerated.random(0)


@pytest.fixture(params=[0, 1], ids=lambda seed: f"batch{seed}")
def batch(request, world) -> Batch:
    return Batch.drawn(world, request.param)


@pytest.fixture(params=list(Weighting), ids=str)
def weighting(request) -> Weighting:
    return request.param


@pytest.fixture
def baseline(world, weighting):
    """Arbitrary predictions from the prefix, where the weighting takes any."""
    if weighting is Weighting.DOUBLY_ROBUST:
        return world.random_baseline(5)
    return None


@pytest.fixture(params=["token", "sequence"])
def per(request) -> str:
    return request.param


@pytest.fixture
def truth(world, per) -> oracles.Objective:
    """The exact entropy, as a function of the parameters."""
    if per == "token":
        return oracles.entropy_per_token(world.policy)
    return oracles.entropy_per_sequence(world.policy)


@pytest.fixture
def pulls_by_reweighting() -> Callable[..., np.ndarray]:
    """Derivative of an estimator in the weight of each prompt, by differences."""

    def pulls(
        estimator: Callable[[PromptSums], Linearised], sums: PromptSums, e: float = 1e-4
    ) -> np.ndarray:
        out = np.empty(sums.prompts)
        for p in range(sums.prompts):
            ends = []
            for sign in (1, -1):
                moved = sums.sums.copy()
                moved[p] *= 1 + sign * e
                ends.append(
                    estimator(PromptSums(sums.columns, sums.prompt, moved)).value
                )
            out[p] = (ends[0] - ends[1]) / (2 * e)
        return out

    return pulls


@pytest.fixture
def assert_standard_error(world) -> Callable[..., None]:
    r"""Prove a standard error against the exact variance of the linearised estimator.

    Of each response the exact pull is $\psi_i$, so n independent ones have the variance
    $V = \sum_i\pi_i\psi_i^2/n$, up to $O(1/n)$. Over batches the mean of the squared
    standard errors and the variance of the values are both V, to 4 deviations of the
    simulation and a bias of $c/n$.
    """

    def check(
        estimator: Callable[[PromptSums], Linearised],
        sums: PromptSums,
        *,
        n: int = 256,
        batches: int = 600,
    ) -> None:
        whole = estimator(world.expectation(sums))
        psi = whole.prompt_influence / world.probability
        V = float(world.probability @ psi**2) / n
        rng = np.random.default_rng(0)
        drawn = [estimator(sampled(sums, world.draw(rng, n))) for _ in range(batches)]
        squared = np.array([d.standard_error**2 for d in drawn])
        values = np.array([d.value for d in drawn])
        bias = 4 / n
        noise = 4 * squared.std() / V / batches**0.5
        assert noise < 0.1
        assert abs(squared.mean() / V - 1) < noise + bias
        spread = (values - whole.value) ** 2 / V
        assert abs(spread.mean() - 1) < 4 * spread.std() / batches**0.5 + bias

    return check
