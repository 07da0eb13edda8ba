"""A trainer's checkpoint: the policy, and the optimizer in the middle of its work."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from entrometer.calculus import AdamWHyperparameters, AdamWState
from entrometer.policy.loading import load_policy
from entrometer.policy.optimizer_state import read_optimizer_state, read_settings
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    local_directory,
    read_json,
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything that decides what the next optimizer step does with a gradient.

    But for the norm that gradients are clipped to: a Trainer keeps it only in
    `training_args.bin`, a pickle that is never opened, so the caller has to know it.
    """

    policy: Policy
    """The weights; the parameters of `state` are the trained ones."""

    state: AdamWState
    """Moments by name, and the steps that the optimizer took."""

    hyperparameters: AdamWHyperparameters
    """Betas, epsilon and the weight decay of every parameter."""

    learning_rate: float
    """Of the step to come; 0 after the last step of a schedule that ends there."""

    step: int
    """Steps of the training run, as `trainer_state.json` counts them.

    More than `state.step` where half-precision training skipped steps, or where
    training was resumed without its optimizer.
    """


def load_checkpoint(
    path: Path | str,
    *,
    base: str | Path | None = None,
    precision: Precision | str = Precision.FLOAT32,
    device: torch.device | str = "cpu",
) -> Checkpoint:
    """Load a `checkpoint-N` of TRL or of transformers' Trainer, with its AdamW.

    A trained parameter that never had a gradient, so that AdamW has no state for it, is
    frozen: the next step passes it over as the ones before did.

    Args:
        path: The directory, with weights or an adapter, `optimizer.pt` and
            `trainer_state.json`.
        base: What an adapter sits on, as in `load_policy`.
        precision: What the policy computes in. Moments are widened to it, not rounded.
        device: Where it computes.
    """
    path = local_directory(Path(path).expanduser())
    if not (path / "trainer_state.json").is_file():
        raise SourceNotFound(
            f"{path / 'trainer_state.json'}: no such file, so this is not a Trainer's "
            "checkpoint, or not all of it. Name a directory `checkpoint-N`, or use "
            "`load_policy` for weights alone."
        )
    policy = load_policy(path, base=base, precision=precision, device=device)
    step = _global_step(path / "trainer_state.json")
    optimizer = read_optimizer_state(path / "optimizer.pt", policy.model)
    if optimizer.state.step > step:
        raise UnreadableSource(
            f"{path}: optimizer.pt took {optimizer.state.step} steps, "
            f"trainer_state.json counts {step}: the files are of different "
            "checkpoints. Copy the whole directory again."
        )
    if optimizer.state.step == 0 and step > 0:
        raise UnreadableSource(
            f"{path}: expected the moments of AdamW after {step} steps, got an "
            "optimizer.pt without any. Copy the whole directory again."
        )
    parameters = dict(policy.model.named_parameters())
    for name in optimizer.untouched:
        parameters[name].requires_grad_(False)
    return Checkpoint(
        policy=policy,
        state=optimizer.state,
        hyperparameters=optimizer.hyperparameters,
        learning_rate=optimizer.learning_rate,
        step=step,
    )


class Schedule(NamedTuple):
    """Where a checkpoint stands in its training."""

    step: int
    """Steps of the training run."""

    learning_rate: float
    """Of the step to come."""

    momentum: float
    """AdamW's first beta."""

    @property
    def share(self) -> float:
        r"""Share of one batch in the step to come, $(1-\beta_1)/(1-\beta_1^{n+1})$.

        The rest is momentum of earlier batches; a batch has it back over later steps.
        """
        return (1 - self.momentum) / (1 - self.momentum ** (self.step + 1))


def read_schedule(path: Path | str) -> Schedule:
    """Read where a checkpoint stands, without its model."""
    path = local_directory(Path(path).expanduser())
    settings = read_settings(path / "optimizer.pt")
    return Schedule(
        _global_step(path / "trainer_state.json"),
        settings.learning_rate,
        settings.betas[0],
    )


def read_progress(path: Path | str) -> float:
    """Share of its training that is behind a checkpoint; 0 where it does not say."""
    file = local_directory(Path(path).expanduser()) / "trainer_state.json"
    steps = read_json(file).get("max_steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        return 0.0
    return min(1.0, _global_step(file) / steps)


def _global_step(path: Path) -> int:
    step = read_json(path).get("global_step")
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise UnreadableSource(
            f"{path}: expected the number of steps as `global_step`, got {step!r}. "
            "Copy the file again, or use an earlier checkpoint."
        )
    return step
