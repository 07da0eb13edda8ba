"""Intervals of products and norms of gradients: two batches, one batch, noise scale."""

# Axes: N all responses to all prompts, P prompts, G responses, E parameters.

from collections.abc import Iterator

import numpy as np

from benchmarks.coverage.world import Case, World
from entrometer import oracles
from entrometer.estimators import Estimate, noise_scale, two_batch_term, u_statistic

UPDATE_PROMPTS = 48
STEPS = 64
STEP_PROMPTS = 16


def gradient_cases(world: World) -> Iterator[Case]:
    rows = _Rows(world)

    def two_batches(rng: np.random.Generator) -> tuple[Estimate, float]:
        X, _ = rows.draw(rng, world.prompts)
        _, Y = rows.draw(rng, UPDATE_PROMPTS)
        return two_batch_term(X @ Y.T), float(rows.mean_X @ rows.mean_Y)

    def given_update(rng: np.random.Generator) -> tuple[Estimate, float]:
        X, _ = rows.draw(rng, world.prompts)
        _, Y = rows.draw(rng, UPDATE_PROMPTS)
        truth = float(rows.mean_X @ Y.mean(axis=0))
        return two_batch_term(X @ Y.T, given_update=True), truth

    def one_batch(rng: np.random.Generator) -> tuple[Estimate, float]:
        X, Y = rows.draw(rng, world.prompts)
        return u_statistic(X @ Y.T).estimate(), float(rows.mean_X @ rows.mean_Y)

    def noise(rng: np.random.Generator) -> tuple[Estimate, float]:
        _, Y = rows.draw(rng, STEPS * STEP_PROMPTS)
        steps = Y.reshape(STEPS, STEP_PROMPTS, -1)
        small = (steps**2).sum(axis=2).mean(axis=1)
        large = (steps.mean(axis=1) ** 2).sum(axis=1)
        return noise_scale(small, large, b=1, B=STEP_PROMPTS), rows.noise_scale

    yield Case("two_batch", two_batches)
    yield Case("two_batch.given_update", given_update)
    yield Case("u_statistic", one_batch)
    yield Case("noise_scale", noise)


class _Rows:
    r"""Per-prompt terms of the gradient of entropy, X, and of the update, Y.

    $X_n = \overline{(S_g - \bar S_{-g})\nabla S_g}$ and
    $Y_n = \frac{1}{LG}\sum_g A_g\nabla S_g$, and their exact moments over the policy.
    """

    def __init__(self, world: World) -> None:
        e = world.enumerated
        self.world = world
        self.length = e.policy.length
        self.J_NE = oracles.score_jacobian(e.policy, e.theta).numpy()
        self.S_N = oracles.sequence_logprobs(e.policy, e.theta).flatten().numpy()
        self.r_N = world.rewards.flatten().numpy()
        p = e.probability
        self.mean_X = (p * self.S_N) @ self.J_NE
        self.mean_Y = (p * self.r_N) @ self.J_NE / self.length
        self.noise_scale = self._exact_noise() / float(self.mean_Y @ self.mean_Y)

    def terms(self, rows_PG: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        G = rows_PG.shape[1]
        S, A, J = self.S_N[rows_PG], self.r_N[rows_PG], self.J_NE[rows_PG]
        centred = [x - (x.sum(axis=1, keepdims=True) - x) / (G - 1) for x in (S, A)]
        X, Y = (np.einsum("pg,pge->pe", x, J) / G for x in centred)
        return X, Y / self.length

    def draw(
        self, rng: np.random.Generator, prompts: int
    ) -> tuple[np.ndarray, np.ndarray]:
        e = self.world.enumerated
        return self.terms(e.draw_groups(rng, prompts, self.world.group))

    def _exact_noise(self) -> float:
        """Exact tr Cov(Y) over prompts and pairs of responses."""
        e = self.world.enumerated
        assert self.world.group == 2
        P = e.policy.prompts
        M = e.probability.size // P
        second = 0.0
        for prompt in range(P):
            own = np.arange(prompt * M, (prompt + 1) * M)
            pairs = np.stack(np.meshgrid(own, own), axis=-1).reshape(-1, 2)
            weight = np.prod(e.probability[pairs] * P, axis=1) / P
            _, Y = self.terms(pairs)
            second += float(weight @ (Y**2).sum(axis=1))
        return second - float(self.mean_Y @ self.mean_Y)
