"""Entropy and reward of each training batch, from recorded updates or a log."""

# Axes: N logged steps.

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.runs.columns import Metrics, read_log
from entrometer.runs.complete import checkpoints
from entrometer.runs.finished import is_training, training_metrics
from entrometer.runs.updates import UpdateBatch, read_update

_UPDATE = re.compile(r"step-(\d{1,18})\.parquet").fullmatch
_LOG = "trainer_state.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingSeries:
    """What a training has logged of its batches; NaN where it has not."""

    source: Path  #: Directory or file that it was read from.
    step: Float[np.ndarray, " N"]  #: Numbers of the optimizer steps, ascending.
    entropy: Float[np.ndarray, " N"]  #: Mean entropy of the tokens, in nats.
    reward: Float[np.ndarray, " N"]  #: Mean reward of the responses.


def training_series(run: Path) -> TrainingSeries:
    """Return the series of a training.

    From its recorded updates, if it has some; else from the log in the newest
    checkpoint, or in the checkpoint that `run` is, as transformers writes it.
    """
    updates = _numbered_updates(run / "updates")
    if updates:
        pairs = [_of_batch(read_update(path)) for _, path in updates]
        entropy, reward = np.array(pairs).T
        step = np.array([number for number, _ in updates], float)
        return TrainingSeries(
            source=run / "updates", step=step, entropy=entropy, reward=reward
        )
    if is_training(run):
        return _of_log(run, training_metrics(run))
    folders = [run, *(path for _, path in reversed(checkpoints(run)))]
    logs = [folder / _LOG for folder in folders if (folder / _LOG).is_file()]
    if not logs:
        raise InvalidValue(
            f"expected recorded updates or a checkpoint with {_LOG} in {run}, got "
            "neither; name the output directory of a training"
        )
    return _of_log(logs[0], read_log(logs[0]))


def _numbered_updates(folder: Path) -> list[tuple[int, Path]]:
    matches = ((_UPDATE(path.name), path) for path in folder.glob("*"))
    return sorted((int(match[1]), path) for match, path in matches if match)


def _of_batch(batch: UpdateBatch) -> tuple[float, float]:
    """Return entropy per counted token and mean reward; NaN where not recorded."""
    H = np.concatenate(batch.of_policy("H"))
    counted = np.concatenate(batch.of_policy("counted"))
    reward = batch.reward[~np.isnan(batch.reward)]
    return (
        float(H[counted].mean()) if counted.any() else np.nan,
        float(reward.mean()) if reward.size else np.nan,
    )


def _of_log(source: Path, metrics: Metrics) -> TrainingSeries:
    unknown = np.full_like(metrics.get("step", np.zeros(0)), np.nan)
    # The entropy that `em.watch` logs is one ratio over the batch; TRL's own, which
    # steps before it have, is a mean of ratios.
    by_token = metrics.get("entropy/token", unknown)
    by_trl = metrics.get("entropy", unknown)
    entropy = np.where(np.isnan(by_token), by_trl, by_token)
    reward = metrics.get("reward", unknown)
    step = metrics.get("step", unknown)
    # Evaluations are logged in rows of their own; a repeated step counts once.
    known = np.isfinite(step) & ~(np.isnan(entropy) & np.isnan(reward))
    step, first = np.unique(step[known], return_index=True)
    return TrainingSeries(
        source=source,
        step=step,
        entropy=entropy[known][first],
        reward=reward[known][first],
    )
