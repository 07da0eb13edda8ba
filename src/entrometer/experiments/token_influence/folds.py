"""Folds of the evaluation batch, by prompt, and what each holds of the batch."""

# Axes: N responses, Q folds.

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    entropy_statistics,
)
from entrometer.runs import Rollouts


def folds_of(prompt: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """Fold of each response: prompts go round the folds as they first appear.

    Unlike a hash of the prompt's id, this makes folds of like size.
    """
    _, first, place = np.unique(prompt, return_index=True, return_inverse=True)
    order = np.empty(first.size, np.int64)
    order[np.argsort(first)] = np.arange(first.size)
    fold: np.ndarray = order[place] % folds
    return fold


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation batch with its tables, in folds."""

    rollouts: Rollouts
    responses: Responses
    here: Tables
    folds: int

    @cached_property
    def fold(self) -> Int[np.ndarray, " N"]:
        """Fold of each response."""
        return folds_of(self.rollouts.prompt, self.folds)

    @property
    def prompts(self) -> int:
        """Prompts, each once."""
        return np.unique(self.rollouts.prompt).size

    @cached_property
    def tokens(self) -> Float[np.ndarray, " Q"]:
        """Tokens of each fold."""
        return self._sums(self.responses.length.astype(np.float64))

    @cached_property
    def entropies(self) -> Float[np.ndarray, " Q"]:
        """ShardedSum entropy of each fold."""
        return self._sums(self.responses.total(self.here.H))

    @cached_property
    def counts(self) -> Float[np.ndarray, " Q"]:
        """Responses of each fold."""
        return self._sums(np.ones(self.responses.count))

    @property
    def entropy(self) -> float:
        """$R$, the entropy a token of the whole batch."""
        whole = entropy_statistics(self.responses, self.here.H)
        return whole.total("H") / whole.total("T")

    def half(self, which: int) -> "Half":
        """The even folds (0), which choose, or the odd (1), which judge."""
        rows = np.flatnonzero(self.fold % 2 == which)
        columns = self.responses.columns(rows)
        rollouts = self.rollouts.select(rows)
        here = Tables(S=self.here.S[columns], H=self.here.H[columns])
        responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
        return Half(Evaluation(rollouts, responses, here, self.folds), columns)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.fold, values, minlength=self.folds)

    @property
    def scored(self) -> PromptSums:
        """Responses and rewards by prompt."""
        return PromptSums.of(
            self.responses.prompt,
            responses=np.ones(self.responses.count),
            r=self.rollouts.reward,
        )


class Half(NamedTuple):
    """Half of an evaluation batch."""

    batch: Evaluation
    columns: Int[np.ndarray, " _"]
    """Places of its tokens in the columns of the whole."""
