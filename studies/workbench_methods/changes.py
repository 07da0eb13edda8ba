"""What the eight updates do to one evaluation batch, from the passes of `measure`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    Linearised,
    PromptSums,
    Responses,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
)
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import plan
from entrometer.experiments.measure.tables import (
    EvaluationBatch,
    UpdateEffect,
    read_evaluation_batch,
    read_update_effect,
)


@dataclass(frozen=True)
class Update:
    """An update, with S and H of the evaluation batch after it by learning rate."""

    name: str
    effect: UpdateEffect

    @property
    def there(self) -> dict[float, Tables]:
        """S and H after the step, by learning rate in ascending order."""
        return self.effect.there

    def change(self, eta: float) -> PromptSums:
        """Return the sums of the change per token, with weights per decision."""
        batch = self.effect.batch
        return change_statistics(
            batch.responses,
            batch.here,
            self.there[eta],
            weighting=Weighting.PER_DECISION,
        )

    def slope(self) -> PromptSums:
        """Return the sums of the slope per token, with weights per decision."""
        batch = self.effect.batch
        return linear_statistics(
            batch.responses,
            batch.here,
            self.effect.tangents,
            weighting=Weighting.PER_DECISION,
        )


@dataclass(frozen=True)
class Effects:
    """What all updates of a checkpoint do to its evaluation batch."""

    batch: EvaluationBatch
    updates: tuple[Update, ...]

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint."""
        return self.batch.point.name

    @property
    def learning_rate(self) -> float:
        """Learning rate of the training."""
        return self.batch.point.learning_rate

    @property
    def responses(self) -> Responses:
        """Layout of the evaluation batch."""
        return self.batch.responses

    @property
    def here(self) -> Tables:
        """S and H before any step."""
        return self.batch.here


def effects(config: MeasureConfig, store: Path) -> Iterator[Effects]:
    """Yield the effects at each checkpoint; a store must have all passes."""
    for point in plan(config):
        batch = read_evaluation_batch(point, store)
        yield Effects(
            batch,
            tuple(
                Update(update.name, read_update_effect(batch, d, store))
                for d, update in enumerate(point.updates)
            ),
        )


def parts(sums: PromptSums, count: int, seed: int = 0) -> list[PromptSums]:
    """Return the sums of disjoint parts of the prompts, the same for equal prompts."""
    order = np.random.default_rng(seed).permutation(sums.prompts)
    return [_of(sums, np.sort(rows)) for rows in np.array_split(order, count)]


def _of(sums: PromptSums, rows: np.ndarray) -> PromptSums:
    return PromptSums(
        sums.columns, sums.prompt[rows], sums.sums[rows], sums.largest_weight
    )


def value(sums: PromptSums) -> Linearised:
    """Return a change or a slope, whichever the sums are of."""
    return entropy_change(sums) if "dN" in sums.columns else linear_term(sums)
