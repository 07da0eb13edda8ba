"""Entropy and reward of each training batch, from recorded updates or a log."""

# Axes: N logged steps.

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.runs.columns import read_log
from entrometer.runs.updates import UpdateBatch, read_update

Named = Callable[[str], re.Match[str] | None]

_UPDATE = re.compile(r"step-(\d{1,18})\.parquet").fullmatch
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,18})").fullmatch
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
    updates = _numbered(run / "updates", _UPDATE)
    if updates:
        pairs = [_of_batch(read_update(path)) for _, path in updates]
        entropy, reward = np.array(pairs).T
        step = np.array([number for number, _ in updates], float)
        return TrainingSeries(
            source=run / "updates", step=step, entropy=entropy, reward=reward
        )
    folders = [run, *(path for _, path in reversed(_numbered(run, _CHECKPOINT)))]
    logs = [folder / _LOG for folder in folders if (folder / _LOG).is_file()]
    if not logs:
        raise InvalidValue(
            f"expected recorded updates or a checkpoint with {_LOG} in {run}, got "
            "neither; name the output directory of a training"
        )
    return _of_log(logs[0])


def _numbered(folder: Path, named: Named) -> list[tuple[int, Path]]:
    found = ((named(path.name), path) for path in folder.glob("*"))
    return sorted((int(match[1]), path) for match, path in found if match)


def _of_batch(batch: UpdateBatch) -> tuple[float, float]:
    """Return entropy per counted token and mean reward; NaN where not recorded."""
    H = np.concatenate(batch.of_policy("H"))
    counted = np.concatenate(batch.of_policy("counted"))
    reward = batch.reward[~np.isnan(batch.reward)]
    return (
        float(H[counted].mean()) if counted.any() else np.nan,
        float(reward.mean()) if reward.size else np.nan,
    )


def _of_log(path: Path) -> TrainingSeries:
    metrics = read_log(path)
    nothing = np.full_like(metrics.get("step", np.zeros(0)), np.nan)
    # That of `em.watch` is one ratio over the batch; TRL's own is a mean of ratios.
    entropy = metrics.get("entropy/token", metrics.get("entropy", nothing))
    reward = metrics.get("reward", nothing)
    step = metrics.get("step", nothing)
    # Evaluations are logged in rows of their own; a repeated step counts once.
    known = np.isfinite(step) & ~(np.isnan(entropy) & np.isnan(reward))
    step, first = np.unique(step[known], return_index=True)
    return TrainingSeries(
        source=path,
        step=step,
        entropy=entropy[known][first],
        reward=reward[known][first],
    )
