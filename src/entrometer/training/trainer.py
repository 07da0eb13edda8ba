"""TRL's GRPO trainer, with checkpoints from which training goes on to the bit."""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from transformers import TrainerCallback
from transformers.trainer_utils import rotate_checkpoints
from trl import GRPOTrainer

from entrometer.errors import InvalidValue
from entrometer.runs import (
    apply_umask,
    checkpoints,
    newest_complete,
    publish,
    seal,
    update_path,
    verify,
)
from entrometer.runs.atomic import naming_full_disk
from entrometer.training.adapter_files import lean_on_base
from entrometer.training.epoch_sampler import EpochSampler
from entrometer.training.intervened import Intervened
from entrometer.training.optimizer_file import number_optimizer
from entrometer.training.sharding import Sharded

logger = logging.getLogger(__name__)

_STAGE = ".saving"

_ADAPTED = "intervention.json"
"""Settings of the next step, of an intervention that adapts."""


class Trainer(Sharded, Intervened, GRPOTrainer):  # type: ignore[misc]
    """A `GRPOTrainer` that is watched, and that can be stopped anywhere.

    A checkpoint holds what TRL leaves out, the generation window and the place in it,
    appears under its name only when it is whole, and ends with a manifest. There is
    one before the first step.
    """

    def __init__(self, *args: Any, base: str | None = None, **kwargs: Any) -> None:
        """Make the trainer.

        Args:
            *args: As for TRL's.
            base: Name of what an adapter sits on: its checkpoints then lean on that,
                and are as small as they can be.
            **kwargs: As for TRL's, the `instruments` and the `intervention`.
        """
        super().__init__(*args, **kwargs)
        self._base = base
        self._stage: Path | None = None
        self._sampler: EpochSampler | None = None
        self._resumed = False
        self.add_callback(_SaveAtStart(self))

    @property
    def run(self) -> Path:
        """The run directory."""
        return Path(self.args.output_dir)

    def train(
        self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any
    ) -> Any:
        """Train; `True` resumes from the newest complete checkpoint."""
        if resume_from_checkpoint is True:
            path, refused = newest_complete(self.run)
            for error in refused:
                logger.warning("%s", error)
            if path is None:
                raise InvalidValue(
                    f"expected a complete checkpoint in {self.run}, got "
                    f"{len(refused)} that are not; start the run anew"
                )
            resume_from_checkpoint = str(path)
        self._resumed = bool(resume_from_checkpoint)
        if resume_from_checkpoint:
            # Before anything is loaded: weights come first, and a cut file of weights
            # would end in an error of somebody else's.
            self._check(Path(resume_from_checkpoint))
            if 0 < self.args.max_steps <= _steps_taken(Path(resume_from_checkpoint)):
                # A Trainer looks whether it is done only after the next step.
                return None
        return super().train(
            resume_from_checkpoint=resume_from_checkpoint or None, **kwargs
        )

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: a run says what it is by its config."""

    def _send_telemetry(self) -> None:
        """Send none: TRL would tell the hub of every trainer that is made."""

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(dataset)
        # TRL's draws the order of an epoch from a generator that begins anew when
        # training is resumed; this one knows the epoch.
        sampler.__class__ = EpochSampler
        self._sampler = sampler
        return sampler

    def _run_epoch(self, *, epoch: int, **kwargs: Any) -> None:
        # Where several processes skip what an epoch has behind it, accelerate wraps
        # the sampler so deep that it never learns the epoch.
        if self._sampler is not None:
            self._sampler.set_epoch(epoch)
        super()._run_epoch(epoch=epoch, **kwargs)

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._stage or super()._get_output_dir(trial))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        name = f"checkpoint-{self.state.global_step}"
        with naming_full_disk(self.run), self._staged() as stage:
            super()._save_checkpoint(model, trial)
            self._save_rest(stage / name)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                # A pickle, which nothing here would ever open.
                (stage / name / "training_args.bin").unlink(missing_ok=True)
                number_optimizer(stage / name)
                if self._base is not None:
                    lean_on_base(stage / name, self._base, destination=self.run / name)
                apply_umask(stage / name)
                seal(
                    stage / name,
                    beside=self._recorded_since_last(),
                    about=self._about(),
                    destination=self.run / name,
                )
                publish(stage / name, self.run / name)
                rotate_checkpoints(
                    str(self.run), save_total_limit=self.args.save_total_limit
                )
        self.accelerator.wait_for_everyone()

    @contextmanager
    def _staged(self) -> Iterator[Path]:
        stage = self.run / _STAGE
        if self.args.should_save:
            # What a killed process left.
            shutil.rmtree(stage, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self._stage = stage
        try:
            yield stage
        finally:
            self._stage = None

    def _check(self, checkpoint: Path) -> None:
        about = verify(checkpoint)
        if about != self._about():
            raise InvalidValue(
                f"{checkpoint}: expected to go on with {about}, got {self._about()}; "
                "use the settings that it was made with"
            )

    def _save_rest(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        between = self._step % (self.args.steps_per_generation * self.num_iterations)
        window = {
            "step": self._step,
            # A window that is used up is not looked at again.
            "inputs": self._buffered_inputs if between else None,
            "metrics": {k: list(v) for k, v in self._metrics["train"].items()},
        }
        torch.save(window, directory / self._window_name())
        if self.args.should_save:
            states = [i.state() for i in self.instruments]
            (directory / "instruments.json").write_text(json.dumps(states))
            if settings := self.intervention_state():
                (directory / _ADAPTED).write_text(json.dumps(settings))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._load_rest(Path(checkpoint))

    def _load_rest(self, directory: Path) -> None:
        window = torch.load(
            directory / self._window_name(), map_location="cpu", weights_only=True
        )
        self._step = window["step"]
        self._buffered_inputs = self._on_device(window["inputs"])
        for name, values in window["metrics"].items():
            self._metrics["train"][name].extend(values)
        states = json.loads((directory / "instruments.json").read_text())
        for instrument, state in zip(self.instruments, states, strict=True):
            instrument.restore(state)
        if (directory / _ADAPTED).is_file():
            self.restore_intervention(json.loads((directory / _ADAPTED).read_text()))

    def _on_device(self, inputs: Any) -> Any:
        if isinstance(inputs, Tensor):
            return inputs.to(self.accelerator.device)
        if isinstance(inputs, dict):
            return {k: self._on_device(v) for k, v in inputs.items()}
        if isinstance(inputs, list):
            return [self._on_device(v) for v in inputs]
        return inputs

    def _window_name(self) -> str:
        return f"window_{self.accelerator.process_index}.pt"

    def _about(self) -> dict[str, Any]:
        """What a checkpoint fits; anything else would be another run."""
        return {
            "accumulation": self.args.gradient_accumulation_steps,
            "instruments": [type(i).__name__ for i in self.instruments],
            "iterations": self.num_iterations,
            "micro_batch": self.args.per_device_train_batch_size,
            "processes": self.accelerator.num_processes,
            "responses": self.num_generations,
            "window": self.args.steps_per_generation,
        } | self.about_intervention()

    def _recorded_since_last(self) -> list[Path]:
        step = self.state.global_step
        last = max((n for n, _ in checkpoints(self.run) if n < step), default=0)
        paths = (update_path(self.run, n) for n in range(last + 1, step + 1))
        return [path for path in paths if path.is_file()]


def _steps_taken(checkpoint: Path) -> int:
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return int(state["global_step"])


class _SaveAtStart(TrainerCallback):
    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        trainer = self.trainer
        if trainer._resumed:
            return
        if trainer.accelerator.is_fsdp2:
            # Torch saves a sharded optimizer that has no state yet by way of a step
            # with gradients of 0, which would be counted: bias corrections of Adam
            # would then be those of one step later.
            get_optimizer_state_dict(trainer.model, trainer.optimizer)
            for state in trainer.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        trainer._save_checkpoint(trainer.model, trial=None)
