"""A trainer's checkpoint: its policy, its optimizer's state and its content key."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh

from entrometer.calculus import AdamWHyperparameters, AdamWState
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of
from entrometer.policy.loading import load_policy
from entrometer.policy.optimizer_state import read_optimizer_state, read_settings
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    local_directory,
    read_json,
    require_plain_files,
)
from entrometer.policy.weights import read_shapes, weight_files
from entrometer.runs.content import content_key, file_sha256

# Files that decide, besides the weights, what a policy does with a text.
_SETTINGS = (
    *(ADAPTER_CONFIG, "added_tokens.json", "config.json", "generation_config.json"),
    *("merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer.model"),
    *("tokenizer_config.json", "vocab.json"),
)

_TRAINER_STATE = "trainer_state.json"

_COPY_AGAIN = "Copy the whole directory again."


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A policy with AdamW's state and settings; the norm of clipping is not included.

    A Trainer keeps that norm in `training_args.bin`, a pickle that is never opened.
    """

    policy: Policy  #: Weights, whose trained parameters are those of `state`.
    state: AdamWState  #: Moments by name, and the steps that the optimizer took.
    hyperparameters: AdamWHyperparameters
    learning_rate: float  #: Of the next step; 0 after a schedule that ends at 0.
    #: Steps of the training run; more than `state.step` where half-precision training
    #: skipped steps, or where training was resumed without its optimizer.
    step: int


def load_checkpoint(
    path: Path | str,
    *,
    base: str | Path | None = None,
    precision: Precision | str = Precision.FLOAT32,
    device: torch.device | str = "cpu",
    mesh: DeviceMesh | None = None,
) -> Checkpoint:
    """Load a `checkpoint-N` of TRL or of transformers' Trainer, with its AdamW.

    Moments are widened to `precision`, not rounded. With a `mesh`, each process of the
    group reads and holds some rows of everything.
    """
    path = local_directory(Path(path).expanduser())
    if not (path / _TRAINER_STATE).is_file():
        raise SourceNotFound(
            f"{path / _TRAINER_STATE}: no such file, so this is not a Trainer's "
            "checkpoint, or not all of it. Name a directory `checkpoint-N`, or use "
            "`load_policy` for weights alone."
        )
    policy = load_policy(path, base=base, precision=precision, device=device, mesh=mesh)
    step = _global_step(path / _TRAINER_STATE)
    optimizer = read_optimizer_state(path / "optimizer.pt", policy.model)
    if optimizer.state.step > step:
        raise UnreadableSource(
            f"{path}: optimizer.pt took {optimizer.state.step} steps, "
            f"{_TRAINER_STATE} counts {step}: of different checkpoints. {_COPY_AGAIN}"
        )
    if optimizer.state.step == 0 and step > 0:
        raise UnreadableSource(
            f"{path}: expected the moments of AdamW after {step} steps, got an "
            f"optimizer.pt without any. {_COPY_AGAIN}"
        )
    # AdamW has no state for a parameter that never had a gradient, and the next step
    # skips it like the ones before: it counts as frozen.
    parameters = dict(policy.model.named_parameters())
    for name in optimizer.untouched:
        parameters[name].requires_grad_(False)
    return Checkpoint(policy, *optimizer[:3], step)


class Schedule(NamedTuple):
    """Steps taken at a checkpoint, and the next step's learning rate and momentum."""

    step: int  #: Steps of the training run so far.
    learning_rate: float  #: Learning rate of the next step.
    momentum: float  #: AdamW's first beta.

    @property
    def share(self) -> float:
        r"""Share of the next step due to its batch: $(1-\beta_1)/(1-\beta_1^{n+1})$."""
        return (1 - self.momentum) / (1 - self.momentum ** (self.step + 1))


def read_schedule(path: Path | str) -> Schedule:
    """Return a checkpoint's step, learning rate and momentum, without its model."""
    path = local_directory(Path(path).expanduser())
    settings = read_settings(path / "optimizer.pt")
    step = _global_step(path / _TRAINER_STATE)
    return Schedule(step, settings.learning_rate, settings.betas[0])


def read_progress(path: Path | str) -> float:
    """Return the share of all training steps taken; 0 if their number is not stored."""
    total = read_total_steps(path)
    file = local_directory(Path(path).expanduser()) / _TRAINER_STATE
    return min(1.0, _global_step(file) / total) if total else 0.0


def read_total_steps(path: Path | str) -> int:
    """Return how many steps the training of a checkpoint has; 0 if not stored."""
    file = local_directory(Path(path).expanduser()) / _TRAINER_STATE
    steps = read_json(file).get("max_steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        return 0
    return steps


def weights_key(checkpoint: Path | str, base: str | Path | None) -> str:
    """Return the key of a policy: a hash of the files it is loaded from, and its base.

    A base that is a directory counts with its files, wherever it is; any other by its
    name alone: `tiny`, a name in the cache, or `owner/name@commit` on the hub.
    """
    directory = local_directory(Path(checkpoint).expanduser())
    files = _digests(directory)
    if base is None and (directory / ADAPTER_CONFIG).is_file():
        recorded = base_of(directory)
        # A name is in the adapter's config, which is hashed; the same relative path
        # may lead to another model.
        base = recorded if recorded and Path(recorded).is_dir() else None
    base_key: str | dict[str, str] | None = None if base is None else str(base)
    if base is not None and Path(base).expanduser().is_dir():
        try:
            base_key = _digests(Path(base).expanduser())
        except (SourceNotFound, UnreadableSource) as error:
            message = f"{directory}: the base of this adapter, {base}, cannot be read"
            raise type(error)(f"{message}: {error}") from error
    return content_key({"base": base_key, "files": files})


def _digests(directory: Path) -> dict[str, str]:
    require_plain_files(directory)
    adapted = (directory / ADAPTER_CONFIG).is_file()
    files = weight_files(directory, "adapter_model" if adapted else "model")
    # Headers are checked first: hashing takes as long as the size that a file claims.
    read_shapes(files)
    files += [directory / name for name in _SETTINGS if (directory / name).is_file()]
    return {path.name: file_sha256(path) for path in files}


def _global_step(path: Path) -> int:
    step = read_json(path).get("global_step")
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise UnreadableSource(
            f"{path}: expected the number of steps as `global_step`, got {step!r}. "
            "Copy the file again, or use an earlier checkpoint."
        )
    return step
