"""Watching a stock TRL trainer: one line before `trainer.train()`."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from entrometer.errors import EntrometerError, InvalidValue
from entrometer.policy.sources import one_line
from entrometer.training.instruments import Instrument, Observed, require_tables
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.probes import (
    EffectiveSampleSize,
    Entropy,
    Forecast,
    GroupSignal,
    NoiseScale,
    PredictedChange,
)
from entrometer.training.recorder import Recorder
from entrometer.training.trackers import alert

logger = logging.getLogger(__name__)


def watch(
    trainer: Any,
    *,
    predict_every: int = 64,
    prompts: int = 16,
    alert_below: float = -0.05,
    entropy_floor: float | None = None,
) -> Any:
    """Record every update of a TRL trainer, and log what it does to entropy.

    Call it once before `trainer.train()`. The training itself stays the same to the
    bit. Every update is written to `updates/` in the trainer's output directory, where
    `entrometer diagnose` finds it. Logged with the trainer's own metrics, to whatever
    `report_to` names: entropy with its standard error, effective sample sizes, the
    share of prompt groups with a signal, the gradient noise scale, the forecast of
    entropy and reward at twice and four times the steps taken, and every
    `predict_every` steps the predicted entropy change of the update, split into the
    batch's part and momentum's.

    Args:
        trainer: A `GRPOTrainer` or a subclass, with any reward functions.
        predict_every: Steps between predictions, which sample responses to some prompts
            of the training set; 0 for none.
        prompts: Number of these prompts.
        alert_below: Raise an alert if an update is predicted to change entropy by less
            than this, in nats per token, by at least two standard errors: a warning,
            and an alert of trackio.
        entropy_floor: Raise an alert, once, if entropy is predicted to be below this,
            in nats per token, at twice the steps taken; by default a fifth of that of
            the first four updates.

    Returns:
        The same trainer.
    """
    kind = type(trainer)
    if isinstance(trainer, Observed):
        raise InvalidValue(
            f"expected a trainer that is not watched yet, got a {kind.__name__}; call "
            "watch once"
        )
    needed = ("_compute_loss", "_get_per_token_logps_and_entropies", "num_generations")
    lacking = [name for name in needed if not hasattr(trainer, name)]
    if lacking:
        raise InvalidValue(
            f"expected TRL's GRPOTrainer or a subclass of it, got a {kind.__name__} "
            f"without {lacking[0]}; make the trainer first, then watch it"
        )
    require_tables(trainer)
    instruments: list[Instrument] = [
        Recorder(),
        Entropy(),
        EffectiveSampleSize(),
        GroupSignal(),
        _IfPossible(Forecast(floor=entropy_floor)),
        _IfPossible(NoiseScale(by="response")),
    ]
    if predict_every:
        chosen = _prompts(trainer, prompts)
        predicted = PredictedChange(every=predict_every, prompts=chosen)
        instruments += [_IfPossible(predicted), _Alert(predicted, alert_below)]
    # A subclass made on the spot: methods of any trainer are observed where they are.
    # Last, so that a trainer that is refused above is the one it was.
    trainer.__class__ = type(f"Watched{kind.__name__}", (Observed, kind), {})
    trainer.observe(instruments)
    return trainer


class _IfPossible(Instrument):
    """An instrument that is left out, with a word, where it cannot measure.

    A training must not end because a probe cannot look at it.
    """

    def __init__(self, instrument: Instrument) -> None:
        self.instrument: Instrument | None = instrument

    def attach(self, trainer: Any) -> None:
        self._tried("attach", trainer)

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        self._tried("micro_step", trainer, micro)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        return self._tried("update", trainer, step) or {}

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        return self._tried("updated", trainer, step) or {}

    def _tried(self, hook: str, trainer: Any, *given: Any) -> Any:
        if self.instrument is None:
            return None
        try:
            return getattr(self.instrument, hook)(trainer, *given)
        # Such as moments of another shape, or no memory left.
        except Exception as error:
            # Settings are refused on every process; what fails on one alone would leave
            # the others waiting for it.
            alone = trainer.accelerator.num_processes == 1
            if not (alone or isinstance(error, EntrometerError)):
                raise
            name = type(self.instrument).__name__
            logger.warning("%s is not logged: %s", name, one_line(error))
            self.instrument = None
            return None


class _Alert(Instrument):
    """Raises an alert when an update is predicted to drain more than a threshold."""

    def __init__(self, predicted: PredictedChange, below: float) -> None:
        self.predicted = predicted
        self.below = below

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        found = self.predicted.last
        if found is None or found.step != step:
            return {}
        # A value that is within its error of the threshold is no reason for an alert.
        if not found.value + 2 * found.standard_error < self.below:
            return {}
        text = (
            f"step {step}: entropy is predicted to change by {found.value:+.3g} ± "
            f"{found.standard_error:.1g} nats per token in one update, below "
            f"{self.below:g}; run `entrometer diagnose` on the checkpoint"
        )
        if trainer.accelerator.is_main_process:
            logger.warning("%s", text)
            alert(trainer, "Entropy drains", text)
        return {}


def _prompts(trainer: Any, count: int) -> list[list[int]]:
    """Return token ids of some prompts, evenly from the training set."""
    data = trainer.train_dataset
    if data is None or not hasattr(data, "__len__"):
        raise InvalidValue(
            "expected a training set with a length, to take prompts for predictions "
            "from, got a stream; pass predict_every=0"
        )
    rows = np.linspace(0, len(data) - 1, min(count, len(data))).astype(int)
    texts = [data[int(i)]["prompt"] for i in dict.fromkeys(rows.tolist())]
    # TRL's own method, so that chat templates and tools are applied as in training.
    return [list(ids) for ids in trainer._tokenize_prompts(texts)[0]]
