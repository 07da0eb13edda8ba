"""Folds of the evaluation batch, by prompt."""

# Axes: N responses, Q folds.

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    importance_weights,
)
from entrometer.estimators.reward_change import RewardBaseline
from entrometer.runs import Rollouts
from entrometer.runs.rollouts import RECORDED

LEAST_RECORDED = 8.0
"""Effective number of recorded responses below which nothing is said about reward."""


def folds_of(prompt: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """Return each response's fold, from 0; all responses to a prompt share one."""
    # By prompt: responses to one prompt are correlated, and the spread over folds is a
    # standard error only if folds are independent.
    _, first, place = np.unique(prompt, return_index=True, return_inverse=True)
    # Prompts go round the folds by first appearance: a hash of the prompt's id would
    # make folds of unequal size.
    order = np.empty(first.size, np.int64)
    order[np.argsort(first)] = np.arange(first.size)
    fold: np.ndarray = order[place] % folds
    return fold


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation batch with its S and H, in folds.

    Entropy is measured on responses that the policy sampled, or an engine in its place.
    Rewards may be those of other responses, which a training recorded. Responses that
    the policy itself did not sample have importance weights.
    """

    rollouts: Rollouts
    responses: Responses  #: Which tokens belong to which response.
    here: Tables  #: S and H of every token.
    folds: int  #: Number of folds.
    sampled: Float[np.ndarray, " N"]
    """Weight of each response in the entropy: 1 for one that the policy sampled, the
    importance weight for one that an engine sampled, 0 for a recorded one."""
    weight: Float[np.ndarray, " N"]
    """Weight of each response in the mean reward; 0 for one without a reward."""

    @classmethod
    def of(cls, parts: Sequence[Rollouts], here: Tables, folds: int) -> "Evaluation":
        """Return the batch of all parts in their order; `here` has their S and H."""
        recorded = [part.sampler.name == RECORDED for part in parts]
        sampler = parts[recorded.index(False)].sampler
        # Without the log-probs of the sampling policies: not all parts have them.
        rollouts = Rollouts.concatenate(
            [replace(part, sampler=sampler, engine_logprobs=None) for part in parts]
        )
        responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
        other = np.repeat(recorded, [p.count for p in parts])
        S = responses.total(np.asarray(here.S, np.float64))
        drawn, others = (
            [
                p
                for p, is_recorded in zip(parts, recorded, strict=True)
                if is_recorded is x
            ]
            for x in (False, True)
        )
        sampled = (~other).astype(np.float64)
        if all(part.engine_logprobs is not None for part in drawn):
            apart = S[~other] - _sampled_with(drawn)
            sampled[~other] = importance_weights(apart)
        weight = np.isfinite(rollouts.reward) * sampled
        if others:
            scored = np.isfinite(rollouts.reward[other])
            weight[other] = scored * _recorded_weights(S[other], others)
        return cls(rollouts, responses, here, folds, sampled, weight)

    @cached_property
    def fold(self) -> Int[np.ndarray, " N"]:
        """Fold of each response."""
        return folds_of(self.rollouts.prompt, self.folds)

    @property
    def prompts(self) -> int:
        """Number of different prompts."""
        return np.unique(self.rollouts.prompt).size

    @cached_property
    def tokens(self) -> Float[np.ndarray, " Q"]:
        """Number of tokens of each fold."""
        return self._sums(self.sampled * self.responses.length)

    @cached_property
    def entropies(self) -> Float[np.ndarray, " Q"]:
        """Entropy of each fold, summed over its tokens."""
        return self._sums(self.sampled * self.responses.total(self.here.H))

    @cached_property
    def counts(self) -> Float[np.ndarray, " Q"]:
        """Number of sampled responses of each fold."""
        return self._sums(self.sampled)

    @cached_property
    def weights(self) -> Float[np.ndarray, " Q"]:
        """Weight of each fold in the mean reward."""
        return self._sums(self.weight)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        # minlength, because a half has no responses in the other half's folds.
        return np.bincount(self.fold, values, minlength=self.folds)

    @property
    def entropy_sums(self) -> PromptSums:
        """Entropy, length and number of each prompt's sampled responses."""
        r, sampled = self.responses, self.sampled
        H, T = sampled * r.total(self.here.H), sampled * r.length
        return PromptSums.of(r.prompt, responses=sampled, H=H, T=T)

    @property
    def entropy(self) -> float:
        """$R$, the entropy per token of the whole batch."""
        return self.entropy_sums.total("H") / self.entropy_sums.total("T")

    @property
    def reward(self) -> Float[np.ndarray, " N"]:
        """Reward of each response; 0 for one without a reward, whose weight is 0."""
        return np.where(self.weight > 0, self.rollouts.reward, 0.0)

    @property
    def scored(self) -> PromptSums:
        """Weight and weighted sum of rewards of each prompt."""
        weight, prompt = self.weight, self.responses.prompt
        return PromptSums.of(prompt, responses=weight, r=weight * self.reward)

    @cached_property
    def reward_baseline(self) -> RewardBaseline:
        """Baseline of rewards: by prompt, if the policy answered each twice or more."""
        prompts, count = np.unique(
            self.rollouts.prompt[self.weight * self.sampled == 1], return_counts=True
        )
        every = np.unique(self.rollouts.prompt[self.weight > 0]).size
        paired = prompts.size == every and bool((count > 1).all())
        on_policy = bool((self.sampled == 1).all())
        return "group" if paired and on_policy else "batch"

    @cached_property
    def has_reward(self) -> bool:
        """Whether there are rewards of two prompts, and enough of recorded ones."""
        # The baseline of a prompt is the mean of the others.
        several = np.unique(self.rollouts.prompt[self.weight > 0]).size > 1
        on_policy = bool((self.weight * self.sampled).any())
        return several and (on_policy or self.effective("reward") >= LEAST_RECORDED)

    def effective(self, objective: str) -> float:
        r"""Return the effective number of an objective's responses.

        $(\sum w)^2/\sum w^2$, their number if all weights are equal.
        """
        w = self.sampled if objective == "entropy" else self.weight
        return float(w.sum()) ** 2 / float(w @ w) if w.any() else 0.0

    def half(self, which: int) -> "Half":
        """Return the even folds (0), used to choose, or the odd, held-out ones (1)."""
        # The halves share no prompt, so what one chooses is not biased on the other.
        rows = np.flatnonzero(self.fold % 2 == which)
        columns = self.responses.columns(rows)
        return Half(self.select(rows), columns)

    def select(self, rows: Int[np.ndarray, " M"]) -> "Evaluation":
        """Return some responses, with the weights they have in the whole batch."""
        rollouts, at = self.rollouts.select(rows), self.responses.columns(rows)
        return Evaluation(
            rollouts,
            Responses.from_lengths(rollouts.prompt, rollouts.length),
            Tables(S=self.here.S[at], H=self.here.H[at]),
            self.folds,
            self.sampled[rows],
            self.weight[rows],
        )


def _sampled_with(parts: Sequence[Rollouts]) -> Float[np.ndarray, " M"]:
    """Return the log-prob of each response by what sampled it."""
    return np.array([x.sum() for part in parts for x in part.engine_logprobs or ()])


def _recorded_weights(
    S: Float[np.ndarray, " M"], parts: Sequence[Rollouts]
) -> Float[np.ndarray, " M"]:
    """Return the importance weights of responses that other policies sampled.

    The parts are of one update after another, the nearest first; those from which on
    more updates would be worth fewer responses have the weight 0.
    """
    log_w = S - _sampled_with(parts)
    # Not each update by itself: one that is far would still be worth a response.
    ends = np.cumsum([part.count for part in parts])
    whole = [
        end
        for end, part, after in zip(ends, parts, [*parts[1:], None], strict=True)
        if after is None or after.sampler.model != part.sampler.model
    ]
    # Weights add up to the effective number of responses.
    best = max(whole, key=lambda end: importance_weights(log_w[:end]).sum())
    return np.pad(importance_weights(log_w[:best]), (0, log_w.size - best))


class Half(NamedTuple):
    """Half of an evaluation batch."""

    batch: Evaluation
    columns: Int[np.ndarray, " _"]
    """Places of its tokens in the columns of the whole batch."""
