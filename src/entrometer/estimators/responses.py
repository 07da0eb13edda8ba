"""The layout of token tables, responses end to end, and their columns."""

# Axes: N responses, K tokens of all responses, L padded length.

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators.prompt_sums import PromptSums

Statistic = Real[np.ndarray, " N"]


@dataclass(frozen=True, eq=False)
class Responses:
    """Prompt id of each response, and the position of its tokens in a column.

    A column is an array (K,) with one number per token, responses end to end: tokens
    `start[i]` to `start[i + 1]` belong to response i. Left out are tokens after EOS and
    those that the policy did not write, such as a tool's output.
    """

    prompt: Int[np.ndarray, " N"]
    """Prompt id of each response: the unit of independence."""
    start: Int[np.ndarray, " N+1"]
    """First token of each response, and the number of tokens K at the end."""
    weight: Float[np.ndarray, " N"] | None = None
    """Importance weight of each response that another policy sampled; None for 1."""

    def __post_init__(self) -> None:
        """Raise for empty responses and for offsets that do not fit."""
        if self.start.size != self.prompt.size + 1 or self.start[0] != 0:
            raise ShapeMismatch(
                f"expected {self.prompt.size + 1} offsets starting at 0, got "
                f"{self.start.size} starting at {self.start[:1]}; "
                "build the layout with Responses.from_lengths"
            )
        if self.prompt.size == 0 or (self.length < 1).any():
            raise InvalidValue(
                "expected at least one response and one token in each (EOS counts), "
                f"got {self.prompt.size} responses, shortest "
                f"{self.length.min(initial=0)}; drop empty responses"
            )

    @classmethod
    def from_lengths(
        cls,
        prompt: Int[np.ndarray, " N"],
        length: Int[np.ndarray, " N"],
        weight: Float[np.ndarray, " N"] | None = None,
    ) -> "Responses":
        """Return the layout of responses with these numbers of tokens."""
        start = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
        return cls(prompt=np.asarray(prompt, np.int64), start=start, weight=weight)

    @classmethod
    def from_mask(
        cls, prompt: Int[np.ndarray, " N"], mask: Bool[np.ndarray, "N L"]
    ) -> "Responses":
        """Return the layout of a padded batch; `table[mask]` gives its columns."""
        return cls.from_lengths(prompt, mask.sum(axis=1))

    @property
    def count(self) -> int:
        """Number of responses N."""
        return self.prompt.size

    @property
    def tokens(self) -> int:
        """Number of tokens K."""
        return int(self.start[-1])

    @cached_property
    def length(self) -> Int[np.ndarray, " N"]:
        """Number of tokens T of each response."""
        return np.diff(self.start)

    @cached_property
    def position(self) -> Int[np.ndarray, " K"]:
        """Position k of each token in its response, from 1."""
        return np.asarray(np.arange(self.tokens) - self.spread(self.start[:-1]) + 1)

    @cached_property
    def remaining(self) -> Float[np.ndarray, " K"]:
        """Number of later tokens in the same response, M = T - k."""
        return np.asarray(self.spread(self.length) - self.position, np.float64)

    def columns(self, rows: Int[np.ndarray, " R"]) -> Int[np.ndarray, " _"]:
        """Return the column indices of the tokens of some responses, in their order."""
        return np.concatenate([np.arange(*self.start[i : i + 2]) for i in rows])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Repeat the value of each response on each of its tokens."""
        return np.repeat(values, self.length, axis=0)

    @property
    def token_weight(self) -> Float[np.ndarray, " K"] | float:
        """Importance weight of each token's response."""
        return 1.0 if self.weight is None else self.spread(self.weight)

    def sums(
        self, *, largest_weight: float = 1.0, **statistics: Statistic
    ) -> PromptSums:
        """Return per-prompt sums of one number per response, weighted."""
        # Estimates are ratios of such sums, so weighted sums make them self-normalised.
        w = 1.0 if self.weight is None else self.weight
        rows = {name: w * np.asarray(x) for name, x in statistics.items()}
        return PromptSums.of(self.prompt, largest_weight=largest_weight, **rows)

    def total(self, column: Float[np.ndarray, " K"]) -> Float[np.ndarray, " N"]:
        """Return the sum over the tokens of each response."""
        return np.add.reduceat(self._checked(column), self.start[:-1])

    def before(self, column: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Return the sum over the earlier tokens of the same response, j < k."""
        return self._running(self._checked(column), slice(None))

    def after(self, column: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Return the sum over the later tokens of the same response, j > k."""
        return self._running(self._checked(column), slice(None, None, -1))

    def _running(self, column: np.ndarray, order: slice) -> np.ndarray:
        out = np.empty_like(column)
        for index_NL, inside_NL in self._blocks:
            block_NL = np.where(inside_NL, column[index_NL], 0.0)[:, order]
            sums_NL = np.zeros_like(block_NL)
            np.cumsum(block_NL[:, :-1], axis=1, out=sums_NL[:, 1:])
            out[index_NL[inside_NL]] = sums_NL[:, order][inside_NL]
        return out

    @cached_property
    def _blocks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        # Responses of similar length are padded together. Each running sum starts at
        # its own response, because one long cumulative sum would round at the size of
        # the whole table. Padding to the next power of two at most doubles the memory.
        bucket = np.ceil(np.log2(self.length)).astype(int)
        blocks = []
        for b in np.unique(bucket):
            rows = np.flatnonzero(bucket == b)
            offset = np.arange(self.length[rows].max())
            inside_NL = offset < self.length[rows, None]
            index_NL = np.where(inside_NL, self.start[rows, None] + offset, 0)
            blocks.append((index_NL, inside_NL))
        return blocks

    def _checked(self, column: np.ndarray) -> np.ndarray:
        if column.shape != (self.tokens,):
            raise ShapeMismatch(
                f"expected a column of {self.tokens} tokens, got shape {column.shape}; "
                "index a padded (N, L) table with its mask first"
            )
        return np.asarray(column, np.float64)


Column = Float[np.ndarray, " K"]  #: One number per token, responses end to end.


def importance_weights(
    log_ratio: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    r"""Return self-normalised weights of responses that another policy sampled.

    $w_i = n\,u_i$ with $u_i = \pi_i/\mu_i$ divided by their sum, where `log_ratio` is
    $\log\pi_i - \log\mu_i$, and $n = 1/\sum u_i^2$ is the effective number of
    responses, to which the weights add up.
    """
    # The largest is subtracted against overflow.
    u = np.exp(log_ratio - log_ratio.max())
    u /= u.sum()
    weights: np.ndarray = u / (u @ u)
    return weights


class Tables(NamedTuple):
    """Log-prob and entropy of each token at one parameter point, in nats."""

    S: Column
    r"""$S_k = \log\pi(t_k|t_{<k},p)$."""
    H: Column
    r"""$H_k$, the whole-vocabulary entropy at the prefix of token k."""


class Tangents(NamedTuple):
    r"""Directional derivatives of each token's log-prob and entropy, along $v$."""

    dS: Column
    r"""$\nabla_v S_k$."""
    dH: Column
    r"""$\nabla_v H_k$."""


class Curvatures(NamedTuple):
    r"""Second directional derivatives of the tables along $v$."""

    ddS: Column
    r"""$\nabla_v^2 S_k$."""
    ddH: Column
    r"""$\nabla_v^2 H_k$."""


class Baseline(NamedTuple):
    """Predictions of the entropy and tokens to go after each token, from its prefix.

    A prediction that uses token k or a later one biases the doubly robust estimator.
    """

    b: Column
    r"""Prediction of the entropy to go, $G_k = \sum_{j>k} H_j$."""
    c: Column
    r"""Prediction of the tokens to go, $M_k = T - k$."""
