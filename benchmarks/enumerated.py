"""The enumerable policy as tables: every response once, with its probability."""

# Axes: N all responses to all prompts, L length limit, K tokens of all responses.

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from entrometer.calculus import Vector, add, jvp, jvp2, norm, scale
from entrometer.estimators import (
    Baseline,
    Curvatures,
    PromptSums,
    Responses,
    Tables,
    Tangents,
)
from entrometer.oracles import EOS, EnumerablePolicy, sequence_logprobs
from entrometer.tokens import response_mask, token_entropy, token_logprobs


@dataclass(frozen=True, eq=False)
class Enumerated:
    """Every response to every prompt of an enumerable policy, moving along `v`."""

    policy: EnumerablePolicy
    theta: dict[str, Tensor]
    v: Vector

    @classmethod
    def random(
        cls, seed: int, policy: EnumerablePolicy | None = None, **parameters: float
    ) -> "Enumerated":
        """A policy with random parameters and a random direction of unit length."""
        policy = policy or EnumerablePolicy()
        theta = policy.parameters(seed, **parameters)
        return cls(policy, theta, random_direction(theta, seed + 1))

    @cached_property
    def prompt(self) -> Tensor:
        return torch.arange(self.policy.prompts).repeat_interleave(
            len(self.policy.sequences())
        )

    @cached_property
    def tokens(self) -> Tensor:
        return self.policy.sequences().repeat(self.policy.prompts, 1)

    @cached_property
    def mask(self) -> Tensor:
        return response_mask(self.tokens, eos=EOS)

    @cached_property
    def responses(self) -> Responses:
        """One row a response, each a unit of its own."""
        mask = self.mask.numpy()
        return Responses.from_mask(np.arange(len(mask)), mask)

    @cached_property
    def probability(self) -> np.ndarray:
        """Of each response, its prompt's share included; adds up to 1."""
        log_p = sequence_logprobs(self.policy, self.theta)
        p: np.ndarray = log_p.exp().flatten().numpy() / self.policy.prompts
        return p

    def padded(self, theta: Vector) -> tuple[Tensor, Tensor]:
        """Padded (N, L) tables S and H at any parameters."""
        z = self.policy.logits(dict(theta), self.prompt, self.tokens)
        return token_logprobs(z, self.tokens), token_entropy(z)

    def column(self, padded: Tensor) -> np.ndarray:
        """A padded table as a column of tokens."""
        column: np.ndarray = padded.detach()[self.mask].numpy()
        return column

    def tables(self, eta: float = 0.0) -> Tables:
        """Tables at theta + eta v."""
        S, H = self.padded(add(self.theta, self.v, scale=eta))
        return Tables(self.column(S), self.column(H))

    @cached_property
    def here(self) -> Tables:
        return self.tables()

    @cached_property
    def tangents(self) -> Tangents:
        dS, dH = jvp(self.padded, self.theta, self.v).first
        return Tangents(self.column(dS), self.column(dH))

    @cached_property
    def curvatures(self) -> Curvatures:
        ddS, ddH = jvp2(self.padded, self.theta, self.v).second
        return Curvatures(self.column(ddS), self.column(ddH))

    def random_baseline(self, seed: int) -> Baseline:
        """Arbitrary predictions that depend on the prompt and the prefix alone."""
        rng = np.random.default_rng(seed)
        table: dict[tuple[int, ...], np.ndarray] = {}
        rows = [
            table.setdefault((int(p), *prefix[:k]), rng.normal(size=2))
            for p, prefix, T in zip(
                self.prompt, self.tokens.tolist(), self.responses.length, strict=True
            )
            for k in range(T)
        ]
        b, c = np.array(rows).T
        return Baseline(b=b, c=c)

    def expectation(self, sums: PromptSums) -> PromptSums:
        """Statistics of each response times its probability: a batch of them all."""
        weighted = sums.sums * self.probability[:, None]
        return PromptSums(sums.columns, sums.prompt, weighted)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Rows of n independent responses to prompts drawn with replacement."""
        return rng.choice(self.probability.size, size=n, p=self.probability)

    def draw_groups(
        self, rng: np.random.Generator, prompts: int, group: int
    ) -> np.ndarray:
        """Rows (prompts, group): prompts drawn with replacement, then responses."""
        P = self.policy.prompts
        M = self.probability.size // P
        cumulative = np.cumsum(self.probability.reshape(P, M) * P, axis=1)
        prompt = rng.integers(P, size=prompts)
        u = rng.random((prompts, group, 1))
        below: np.ndarray = u > cumulative[prompt][:, None, :-1]
        rows: np.ndarray = prompt[:, None] * M + below.sum(axis=2)
        return rows

    def layout(self, rows: np.ndarray) -> tuple[Responses, np.ndarray]:
        """Layout of drawn rows, (P,) or (P, G), and where their tokens are."""
        prompt = np.repeat(np.arange(len(rows)), rows.size // len(rows))
        drawn = Responses.from_lengths(prompt, self.responses.length[rows.ravel()])
        first = drawn.spread(self.responses.start[rows.ravel()])
        return drawn, first + drawn.position - 1


def sampled(sums: PromptSums, rows: np.ndarray) -> PromptSums:
    """Sums of drawn rows, (P,) or (P, G), each row of rows a prompt of its own."""
    rows = rows.reshape(len(rows), -1)
    largest = 1.0
    if "w" in sums.columns:
        largest = float(sums.of_prompts("w")[rows].max())
    drawn = sums.sums[rows].sum(axis=1)
    return PromptSums(sums.columns, np.arange(len(rows)), drawn, largest)


def taken(columns: Sequence[np.ndarray], index: np.ndarray) -> list[np.ndarray]:
    """The same tokens of several columns."""
    return [column[index] for column in columns]


def random_direction(theta: Vector, seed: int) -> dict[str, Tensor]:
    """A random direction of unit length."""
    generator = torch.Generator().manual_seed(seed)
    v = {n: torch.randn(p.shape, generator=generator).to(p) for n, p in theta.items()}
    return scale(v, 1 / norm(v).item())
