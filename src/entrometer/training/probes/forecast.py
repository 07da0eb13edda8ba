"""Forecast of entropy and reward from the updates so far, and an alert."""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entrometer import estimators
from entrometer.errors import EntrometerError, InvalidValue
from entrometer.estimators.collapse import (
    collapse_ahead,
    entropy_floor,
    has_collapsed,
    soonest,
)
from entrometer.estimators.forecast import forecasts
from entrometer.runs.training_series import training_series
from entrometer.training.instruments import Instrument
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.trackers import alert

logger = logging.getLogger(__name__)


class Forecast(Instrument):
    """Logs entropy and reward of the updates 2t and 4t, predicted from the first t.

    Entropy per token and mean reward are those of the update batches, over all
    micro-batches and processes. The forecast reads nothing else; see
    `entrometer.estimators.forecast`.

    Logs `forecast/entropy_2t`, `forecast/reward_2t` and the same of `4t`, each with
    `_low` and `_high`, the ends of its 95% prediction interval; nothing before the
    eighth update. If entropy at 2t is predicted to be below the floor, with at least
    the probability `entrometer.estimators.collapse.ALERT`, or if it has been below it
    in the last four updates, a warning is logged, once, and an alert of trackio if that
    is among `report_to`.
    """

    def __init__(self, *, floor: float | None = None) -> None:
        """Raise an alert for this entropy, in nats per token.

        By default a fifth of the mean of the first four updates.
        """
        if floor is not None and not 0 < floor < math.inf:
            raise InvalidValue(
                f"expected an entropy above 0, got entropy_floor={floor}; correct it"
            )
        self.floor = floor
        self._sums: list[Tensor] = []
        self._series: list[list[float]] = []
        self._alerted = False

    def attach(self, trainer: Any) -> None:
        """Read the updates before this one, if a training resumes without a state."""
        taken, run = trainer.state.global_step, Path(trainer.args.output_dir)
        if self._series or not taken:
            return
        try:
            past = training_series(run)
        except EntrometerError as error:
            logger.warning("the forecast begins anew at step %d: %s", taken, error)
            return
        rows = np.stack([past.step, past.entropy, past.reward], axis=1)
        self._series = rows[past.step <= taken].tolist()
        entropy = rows[past.step <= taken, 1]
        floor = entropy_floor(entropy) if self.floor is None else self.floor
        # There was an alert for it before the training stopped.
        self._alerted = has_collapsed(floor, entropy)

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Sum entropies and rewards of a micro-batch."""
        mask = micro.response_mask.bool()
        weighted = micro.rewards * trainer.reward_weights.to(micro.rewards.device)
        # As TRL sums rewards; a response without any has none.
        rewarded = ~weighted.isnan().all(dim=1)
        columns = (
            micro.H.where(mask, 0.0).sum(),
            mask.sum(),
            weighted.nansum(dim=1).sum(),
            rewarded.sum(),
        )
        self._sums.append(torch.stack([column.double() for column in columns]))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return the forecast from this update and those before it."""
        local = torch.stack(self._sums).sum(dim=0)
        self._sums = []
        H, T, reward, n = trainer.accelerator.reduce(local, reduction="sum").tolist()
        mean_H, mean_reward = H / T if T else math.nan, reward / n if n else math.nan
        self._series.append([float(step), mean_H, mean_reward])
        steps, entropy, rewards = np.array(self._series).T
        found = forecasts(steps, entropy, rewards)
        floor = entropy_floor(entropy) if self.floor is None else self.floor
        ahead = collapse_ahead(found, floor, entropy)
        if not self._alerted and (ahead or has_collapsed(floor, entropy)):
            self._alerted = True
            if trainer.accelerator.is_main_process:
                self._alert(trainer, step, floor, soonest(found) if ahead else None)
        return {
            f"forecast/{name}_{forecast.horizon}t{end}": value
            for forecast in found
            for name, predicted in (
                ("entropy", forecast.entropy),
                ("reward", forecast.reward),
            )
            for end, value in (
                ("", predicted.value),
                ("_low", predicted.low),
                ("_high", predicted.high),
            )
        }

    def _alert(
        self, trainer: Any, step: int, floor: float, later: estimators.Forecast | None
    ) -> None:
        """Raise the alert: of a later step, or of a collapse that was not foreseen."""
        level = f"below {floor:.3g} nats per token"
        if later is None:
            title = "Entropy has collapsed"
            said = f"entropy has been {level} in the last four updates"
        else:
            title = "Entropy is about to collapse"
            said = (
                f"entropy is predicted to be {level} at step {later.step}, with a "
                f"probability of {later.probability_below(floor):.0%}"
            )
        text = (
            f"step {step}: {said}; run `entrometer diagnose` on the newest checkpoint"
        )
        logger.warning("%s", text)
        alert(trainer, title, text)

    def state(self) -> dict[str, Any]:
        """Return the series so far, and whether there was an alert."""
        # JSON has no NaN.
        series = [[None if math.isnan(x) else x for x in row] for row in self._series]
        return {"series": series, "alerted": self._alerted}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the series, and whether there was an alert."""
        self._series = [
            [math.nan if x is None else float(x) for x in row]
            for row in state["series"]
        ]
        self._alerted = bool(state["alerted"])
