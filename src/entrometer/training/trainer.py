"""TRL's GRPO trainer, with checkpoints from which training resumes to the bit."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from transformers import TrainerCallback
from transformers.trainer_utils import rotate_checkpoints
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler, add_fused_lm_head

from entrometer.errors import InvalidValue
from entrometer.policy import Policy, load_policy
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
from entrometer.training.checkpoint_files import refer_to_base, write_numbered_optimizer
from entrometer.training.instruments import trained_precision
from entrometer.training.intervened import Intervened
from entrometer.training.processes import FsdpTrainer

logger = logging.getLogger(__name__)

_STAGE = ".saving"

# File with the settings of the next step, for an intervention that adapts.
_ADAPTED = "intervention.json"


class EpochSampler(RepeatSampler):  # type: ignore[misc]
    """TRL's sampler, with the order of prompts determined by seed and epoch alone."""

    def set_epoch(self, epoch: int) -> None:
        """Seed the order of the prompts of an epoch."""
        # TRL seeds the generator once and draws one permutation per epoch, so a resumed
        # run, with a new generator, would start with the order of the first epoch.
        if self.shuffle:
            self.generator.manual_seed(self.seed + epoch)


class Trainer(FsdpTrainer, Intervened, GRPOTrainer):  # type: ignore[misc]
    """A `GRPOTrainer` with instruments, whose training can be stopped and resumed.

    A checkpoint also holds the generation window and the position in it. It appears
    under its name only when complete. The first is saved before the first step.
    """

    def __init__(self, *args: Any, base: str | None = None, **kwargs: Any) -> None:
        """Make the trainer from TRL's arguments, `instruments` and `intervention`.

        `base` is the name or path of the model that an adapter is on: checkpoints then
        name it and hold none of its files.
        """
        super().__init__(*args, **kwargs)
        if self._reads_first_checkpoint() and self.args.save_total_limit:
            raise InvalidValue(
                f"expected every checkpoint to be kept for {self.intervention}, whose "
                "reference is the first one, got save_total_limit="
                f"{self.args.save_total_limit}; leave it out, or set beta above 0"
            )
        self._base = base
        self._stage: Path | None = None
        self._sampler: EpochSampler | None = None
        self.resumed = False
        """Whether the training continues from a checkpoint, possibly the first."""

        self.add_callback(_SaveAtStart(self))

    @property
    def run(self) -> Path:
        """The run directory."""
        return Path(self.args.output_dir)

    def available_tables(self) -> set[str]:
        """Return the optional tables of `TokenTables` that the trainer has."""
        # The policy at the beginning of Dr-GRPO is the reference without TRL's.
        return super().available_tables() | {"S_ref"}

    def _reads_first_checkpoint(self) -> bool:
        chosen = self.intervention
        needs = () if chosen is None else chosen.remedy.needs
        return "S_ref" in needs and not self.beta

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        if not self._reads_first_checkpoint():
            return output
        return output | {"ref_per_token_logps": self._reference_log_probs(output)}

    @torch.no_grad()
    def _reference_log_probs(self, output: Mapping[str, Any]) -> torch.Tensor:
        response = output["completion_ids"]
        S: torch.Tensor
        S, _, _ = self._get_per_token_logps_and_entropies(
            self._reference.model,
            torch.cat([output["prompt_ids"], response], dim=1),
            torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1),
            response.shape[1],
            batch_size=self.args.per_device_train_batch_size,
        )
        return S

    @cached_property
    def _reference(self) -> Policy:
        # The first checkpoint is saved before the first responses are drawn, and is
        # there when training resumes: the reference is the same to the bit.
        policy = load_policy(
            self.run / "checkpoint-0",
            base=self._base,
            precision=trained_precision(self.model, "a reference model"),
            device=self.accelerator.device,
        )
        # As TRL prepares its own reference.
        add_fused_lm_head(policy.base, temperature=self.temperature)
        return policy

    def train(
        self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any
    ) -> Any:
        """Train; from a checkpoint's path, or for `True` the newest complete one."""
        if resume_from_checkpoint is True:
            path, refused = newest_complete(self.run)
            for error in refused:
                logger.warning("%s", error)
            if path is None:
                damage = f", only damaged ones: {refused[0]}" if refused else ""
                raise InvalidValue(
                    f"expected a complete checkpoint in {self.run}, got none{damage}. "
                    "Restore one, or start a new run in another directory"
                )
            resume_from_checkpoint = str(path)
        self.resumed = bool(resume_from_checkpoint)
        if resume_from_checkpoint:
            # Before anything is loaded: transformers loads the weights first, and a
            # truncated file would raise an error that does not name the checkpoint.
            self._check(Path(resume_from_checkpoint))
            if 0 < self.args.max_steps <= _steps_taken(Path(resume_from_checkpoint)):
                # Transformers checks for the last step only after another step.
                return None
        return super().train(
            resume_from_checkpoint=resume_from_checkpoint or None, **kwargs
        )

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write no model card, which TRL would save with every checkpoint."""

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(dataset)
        # TRL chooses the arguments of its sampler; only the class is replaced, so that
        # a change of those arguments reaches ours too.
        sampler.__class__ = EpochSampler
        self._sampler = sampler
        return sampler

    def _run_epoch(self, *, epoch: int, **kwargs: Any) -> None:
        # When several processes skip the finished batches of an epoch, accelerate wraps
        # the sampler twice and `set_epoch` does not get through: call it here.
        if self._sampler is not None:
            self._sampler.set_epoch(epoch)
        super()._run_epoch(epoch=epoch, **kwargs)

    def _get_output_dir(self, trial: Any) -> str:
        # `_save_checkpoint` of transformers asks this for the parent directory: during
        # a save it is the staging directory.
        return str(self._stage or super()._get_output_dir(trial))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        name = f"checkpoint-{self.state.global_step}"
        with naming_full_disk(self.run), self._staged() as stage:
            super()._save_checkpoint(model, trial)
            self._save_rest(stage / name)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                # A pickle, which nothing here ever opens.
                (stage / name / "training_args.bin").unlink(missing_ok=True)
                write_numbered_optimizer(stage / name)
                if self._base is not None:
                    refer_to_base(stage / name, self._base, destination=self.run / name)
                apply_umask(stage / name)
                seal(
                    stage / name,
                    beside=self._recorded_since_last(),
                    about=self._about(),
                    destination=self.run / name,
                )
                # Sealed, then renamed: a checkpoint with its name is complete.
                publish(stage / name, self.run / name)
                # Transformers rotated the staging directory, which has no old ones.
                limit = self.args.save_total_limit
                rotate_checkpoints(str(self.run), save_total_limit=limit)
        self.accelerator.wait_for_everyone()

    @contextmanager
    def _staged(self) -> Iterator[Path]:
        stage = self.run / _STAGE
        if self.args.should_save:
            # Left by a killed process.
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
                f"{checkpoint}: expected to resume with {about}, got {self._about()}; "
                "use the settings that it was saved with"
            )

    def _save_rest(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        between = self._step % (self.args.steps_per_generation * self.num_iterations)
        window = {
            "step": self._step,
            # A used-up window is never read again.
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
        # Transformers calls this once per training, after weights are loaded and before
        # `on_train_begin`: the last point where everything to be restored exists.
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        directory = Path(checkpoint)
        file = directory / self._window_name()
        window = torch.load(file, map_location="cpu", weights_only=True)
        self._step = window["step"]
        device = self.accelerator.device
        self._buffered_inputs = send_to_device(window["inputs"], device)
        for name, values in window["metrics"].items():
            self._metrics["train"][name].extend(values)
        states = json.loads((directory / "instruments.json").read_text())
        for instrument, state in zip(self.instruments, states, strict=True):
            instrument.restore(state)
        if (directory / _ADAPTED).is_file():
            self.restore_intervention(json.loads((directory / _ADAPTED).read_text()))

    def _window_name(self) -> str:
        return f"window_{self.accelerator.process_index}.pt"

    def _about(self) -> dict[str, Any]:
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
        if trainer.resumed:
            return
        if trainer.accelerator.is_fsdp2:
            # To save a sharded optimizer without state, torch takes a step with zero
            # gradients, which counts: Adam's bias corrections would be one step ahead.
            # Take that step now and set its state back to zero.
            get_optimizer_state_dict(trainer.model, trainer.optimizer)
            for state in trainer.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        trainer._save_checkpoint(trainer.model, trial=None)
