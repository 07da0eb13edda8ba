"""Folds of the evaluation batch, by prompt."""

# Axes: N responses, Q folds.

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators import PromptSums, Responses, Tables, entropy_statistics
from entrometer.runs import Rollouts


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
    """The evaluation batch with its S and H, in folds."""

    rollouts: Rollouts
    responses: Responses  #: Which tokens belong to which response.
    here: Tables  #: S and H of every token.
    folds: int  #: Number of folds.

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
        return self._sums(self.responses.length.astype(np.float64))

    @cached_property
    def entropies(self) -> Float[np.ndarray, " Q"]:
        """Entropy of each fold, summed over its tokens."""
        return self._sums(self.responses.total(self.here.H))

    @cached_property
    def counts(self) -> Float[np.ndarray, " Q"]:
        """Number of responses of each fold."""
        return self._sums(np.ones(self.responses.count))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        # minlength, because a half has no responses in the other half's folds.
        return np.bincount(self.fold, values, minlength=self.folds)

    @property
    def entropy(self) -> float:
        """$R$, the entropy per token of the whole batch."""
        whole = entropy_statistics(self.responses, self.here.H)
        return whole.total("H") / whole.total("T")

    @property
    def scored(self) -> PromptSums:
        """Number of responses and sum of rewards of each prompt."""
        r = self.responses
        count, reward = np.ones(r.count), self.rollouts.reward
        return PromptSums.of(r.prompt, responses=count, r=reward)

    def half(self, which: int) -> "Half":
        """Return the even folds (0), used to choose, or the odd, held-out ones (1)."""
        # The halves share no prompt, so what one chooses is not biased on the other.
        rows = np.flatnonzero(self.fold % 2 == which)
        columns = self.responses.columns(rows)
        rollouts = self.rollouts.select(rows)
        here = Tables(S=self.here.S[columns], H=self.here.H[columns])
        responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
        return Half(Evaluation(rollouts, responses, here, self.folds), columns)


class Half(NamedTuple):
    """Half of an evaluation batch."""

    batch: Evaluation
    columns: Int[np.ndarray, " _"]
    """Places of its tokens in the columns of the whole batch."""
