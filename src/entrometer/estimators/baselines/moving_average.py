"""The moving average of the original notes, by position, cross-fitted."""

# Axes: K tokens of all responses, Q folds, L positions, 2 targets (entropy, tokens).

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.baselines.folds import fold_of, sum_of_other_folds
from entrometer.estimators.responses import Responses
from entrometer.estimators.tables import Baseline, Tables


@dataclass(frozen=True, eq=False)
class PositionFit:
    r"""Sums of $(G_k, M_k)$ by position and fold, one entry a batch.

    Batches carry a number, and the average runs over them in that order, so parts
    merge in any order. Positions are absolute. (The original binned them by $k/T$;
    that knows the length and biases the estimate.)
    """

    batches: Mapping[int, tuple[Float[np.ndarray, "Q L 2"], Float[np.ndarray, "Q L"]]]
    """Batch number to the sums and the number of tokens in them."""

    @classmethod
    def of(
        cls,
        responses: Responses,
        here: Tables,
        *,
        batch: int,
        positions: int,
        folds: int = 5,
    ) -> "PositionFit":
        """Sums of one batch; tokens past `positions` share the last bin."""
        y = np.stack([responses.after(here.H), responses.remaining], axis=1)
        fold = responses.spread(fold_of(responses.prompt, folds))
        position = _bin(responses, positions)
        sums = np.zeros((folds, positions, 2))
        count = np.zeros((folds, positions))
        np.add.at(sums, (fold, position), y)
        np.add.at(count, (fold, position), 1.0)
        return cls({batch: (sums, count)})

    @classmethod
    def merge(cls, parts: Iterable["PositionFit"]) -> "PositionFit":
        """Sums of all parts together; parts of the same batch add up."""
        merged: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        shape: tuple[int, ...] | None = None
        for part in parts:
            for batch, (sums, count) in part.batches.items():
                shape = shape or count.shape
                if count.shape != shape:
                    raise InvalidValue(
                        f"expected parts with {shape[0]} folds and {shape[1]} "
                        f"positions, got {count.shape[0]} and {count.shape[1]}; fit "
                        "every part with the same folds and positions"
                    )
                if batch in merged:
                    sums, count = merged[batch][0] + sums, merged[batch][1] + count
                merged[batch] = (sums, count)
        return cls(merged)

    def solve(self, *, decay: float = 0.95) -> "PositionBaseline":
        r"""$\mu_k \leftarrow \beta\mu_k + (1-\beta)\bar y_k$ over the batches in order.

        $\bar y_k$ is the batch's mean at position k over all folds but one; the first
        batch that reaches a position starts it. A position never reached predicts 0.
        """
        if not 0 <= decay < 1:
            raise InvalidValue(f"expected 0 <= decay < 1, got {decay}")
        mean: np.ndarray | None = None
        for batch in sorted(self.batches):
            sums, count = self.batches[batch]
            others = sum_of_other_folds(count)
            y = sum_of_other_folds(sums) / np.maximum(others, 1)[..., None]
            seen = (others > 0)[..., None]
            if mean is None:
                mean, started = np.zeros_like(y), np.zeros_like(seen)
            update = np.where(started, decay * mean + (1 - decay) * y, y)
            mean = np.where(seen, update, mean)
            started = started | seen
        if mean is None:
            raise InvalidValue("expected at least one batch to average, got none")
        return PositionBaseline(mean=mean)


@dataclass(frozen=True, eq=False)
class PositionBaseline:
    """Average to go at each position, for each fold from the other folds."""

    mean: Float[np.ndarray, "Q L 2"]

    def predict(self, responses: Responses) -> Baseline:
        """Predictions for every token from its position and its prompt's fold."""
        folds, positions, _ = self.mean.shape
        fold = responses.spread(fold_of(responses.prompt, folds))
        predicted = self.mean[fold, _bin(responses, positions)]
        return Baseline(b=predicted[:, 0].copy(), c=predicted[:, 1].copy())


def _bin(responses: Responses, positions: int) -> np.ndarray:
    index: np.ndarray = np.minimum(responses.position - 1, positions - 1)
    return index
