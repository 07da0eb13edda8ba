"""A training that can be enumerated: exact gradients, and a population of batches."""

# Axes: N all responses to all prompts, L length limit, D parameters, B batches.

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.calculus import (
    AdamWHyperparameters,
    AdamWState,
    Vector,
    adamw_update,
    batch_directions,
    jackknife_horizons,
    vjp,
)
from entrometer.estimators import pseudo_values
from entrometer.interventions import PLAIN, TokenTables, intervention

BETAS, EPSILON = (0.9, 0.999), 1e-8

PROMPTS, RESPONSES = 8, 8
"""Prompt groups of an update batch, and responses of a group."""

LOSSES = (
    PLAIN,
    "grpo",
    "entropy-bonus:alpha=0.02",
    "positive-only",
    "high-entropy:rho=0.5",  # Keeps tokens by a quantile over the whole batch.
    "clip-cov:rho=0.1,lower=0.05",  # Drops tokens by lot.
)


@dataclass(frozen=True)
class World:
    """24 prompts, responses of up to 3 of 4 tokens, after some steps of Dr-GRPO."""

    steps: int = 40
    learning_rate: float = 0.02
    max_grad_norm: float = 0.1
    """Norm at which about a third of the batches are clipped."""
    population: int = 4000
    """Batches that stand for all that the training could draw."""

    @cached_property
    def policy(self) -> oracles.EnumerablePolicy:
        return oracles.EnumerablePolicy(vocabulary=4, length=3, prompts=24)

    @cached_property
    def rewards(self) -> np.ndarray:
        """1 for a response whose first token is the prompt's answer."""
        first = self.policy.sequences()[:, 0]
        answer = torch.arange(self.policy.prompts)[:, None] % 3 + 1
        return (first == answer).double().flatten().numpy()

    @cached_property
    def trained(self) -> tuple[Enumerated, AdamWState]:
        """The policy and AdamW's state after some steps of plain Dr-GRPO."""
        theta = self.policy.parameters(7, scale=0.5)
        state, rng = AdamWState.fresh(theta), np.random.default_rng(3)
        for step in range(self.steps):
            here = Enumerated(self.policy, theta, theta)
            rows = here.draw_groups(rng, PROMPTS, RESPONSES)
            alpha, gamma = self.weights(here, _tables(here), rows, PLAIN, seed=step)
            gradient = {n: -g for n, g in _vjp(here, alpha, gamma).items()}
            made = adamw_update(
                theta, gradient, state, self.hyper(theta), max_norm=self.max_grad_norm
            )
            v, state = made.update.direction, made.state
            theta = {n: p + self.learning_rate * v[n] for n, p in theta.items()}
        return Enumerated(self.policy, theta, theta), state

    @staticmethod
    def hyper(theta: dict[str, Tensor]) -> AdamWHyperparameters:
        return AdamWHyperparameters(BETAS, EPSILON, dict.fromkeys(theta, 0.0))

    def weights(
        self,
        here: Enumerated,
        tables: tuple[Tensor, Tensor],
        rows: np.ndarray,
        loss: str,
        *,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (N, L) that a loss gives S and H of the tokens of drawn rows."""
        S, H = (x[rows.ravel()] for x in tables)
        r = self.rewards[rows]
        A = torch.tensor(r - r.mean(axis=1, keepdims=True)).reshape(-1, 1)
        batch = TokenTables(
            S=S,
            H=H,
            S_old=S,
            A=A.expand(S.shape),
            mask=here.mask[rows.ravel()],
            group=torch.arange(len(rows)).repeat_interleave(rows.shape[1]),
            length_limit=self.policy.length,
            seed=seed,
        )
        found = intervention(loss).coefficients(batch)
        summed = []
        for x in found:
            table = np.zeros(here.mask.shape)
            np.add.at(table, rows.ravel(), (x * batch.mask).numpy())
            summed.append(table)
        return summed[0], summed[1]

    @cached_property
    def jacobians(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of S and H of every token of every response, (N L, D)."""
        here, _ = self.trained
        flat, theta = _flat(here.theta), here.theta

        def tables(x: Tensor) -> tuple[Tensor, Tensor]:
            S, H = here.padded(_shaped(x, theta))
            return S.flatten(), H.flatten()

        # Forward mode: there are fewer parameters than tokens.
        S, H = torch.func.jacfwd(tables)(flat)
        counted = here.mask.flatten()[:, None]
        return (S * counted).numpy(), (H * counted).numpy()

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """AdamW's moments before the next step, (D,)."""
        _, state = self.trained
        return _flat(state.first_moment), _flat(state.second_moment)

    @property
    def adamw(self) -> dict[str, Any]:
        """Settings and steps of AdamW, for its directions."""
        _, state = self.trained
        return {"step": state.step, "betas": BETAS, "epsilon": EPSILON}

    @cached_property
    def batches(self) -> dict[str, Tensor]:
        """Clipped gradient of every batch of the population by loss, (B, D)."""
        here, _ = self.trained
        rng, (J_S, J_H) = np.random.default_rng(5), self.jacobians
        draws = [
            here.draw_groups(rng, PROMPTS, RESPONSES) for _ in range(self.population)
        ]
        found, tables = {}, _tables(here)
        for loss in LOSSES:
            weights = [
                self.weights(here, tables, drawn, loss, seed=i)
                for i, drawn in enumerate(draws)
            ]
            alpha, gamma = (
                np.stack([pair[i].ravel() for pair in weights]) for i in range(2)
            )
            g = torch.from_numpy(-(alpha @ J_S + gamma @ J_H))
            size = g.norm(dim=1, keepdim=True) + 1e-6
            found[loss] = g * (self.max_grad_norm / size).clamp(max=1)
        return found

    @cached_property
    def directions(self) -> dict[str, np.ndarray]:
        """AdamW's own step, per unit learning rate, of every batch and loss, (B, D)."""
        return {
            loss: batch_directions(g, *self.moments, **self.adamw)[0].numpy()
            for loss, g in self.batches.items()
        }

    def rates(self, loss: str, drawn: np.ndarray, horizon: int) -> np.ndarray:
        """Pseudo-values of the mean direction over a horizon, by drawn batches."""
        g = self.batches[loss][drawn]
        (found,) = jackknife_horizons(
            g, *self.moments, **self.adamw, horizons=(horizon,)
        )
        rows = found.numpy()
        return pseudo_values(rows[0], rows[1:])

    def continued(self, loss: str, horizon: int, runs: int = 200) -> np.ndarray:
        """Mean direction of real steps at fixed parameters, by batches drawn afresh."""
        rng = np.random.default_rng([7, horizon])
        (m0, s0), (beta1, beta2) = self.moments, BETAS
        m, s = m0.repeat(runs, 1), s0.repeat(runs, 1)
        total = torch.zeros_like(m0)
        for t in range(1, horizon + 1):
            g = self.batches[loss][rng.integers(self.population, size=runs)]
            m, s = beta1 * m + (1 - beta1) * g, beta2 * s + (1 - beta2) * g**2
            n = self.adamw["step"] + t
            root = (s / (1 - beta2**n)).sqrt() + EPSILON
            total -= (m / (1 - beta1**n) / root).mean(dim=0)
        return (total / horizon).numpy()

    @cached_property
    def gradients(self) -> dict[str, np.ndarray]:
        """Exact gradients of entropy per token and of expected reward, (D,)."""
        here, _ = self.trained
        table = torch.from_numpy(self.rewards).reshape(self.policy.prompts, -1)
        objectives = {
            "entropy": oracles.entropy_per_token(self.policy),
            "reward": oracles.expected_reward(self.policy, table),
        }
        return {
            name: _flat(oracles.gradient(f, here.theta)).numpy()
            for name, f in objectives.items()
        }


def _tables(here: Enumerated) -> tuple[Tensor, Tensor]:
    S, H = here.padded(here.theta)
    return S.detach(), H.detach()


def _vjp(here: Enumerated, alpha: np.ndarray, gamma: np.ndarray) -> dict[str, Tensor]:
    weights = (torch.from_numpy(alpha), torch.from_numpy(gamma))
    return dict(vjp(here.padded, here.theta, weights).gradient)


def _flat(vector: Vector) -> Tensor:
    return torch.cat([vector[name].detach().flatten() for name in sorted(vector)])


def _shaped(flat: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    names = sorted(like)
    parts = flat.split([like[n].numel() for n in names])
    return {n: x.reshape(like[n].shape) for n, x in zip(names, parts, strict=True)}
