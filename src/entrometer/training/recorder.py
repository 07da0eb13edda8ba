"""Recording of every update batch as a table next to the checkpoints."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from entrometer.runs import UpdateSettings, update_path, write_update
from entrometer.training.instruments import Instrument
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.update_rows import (
    Row,
    changed_settings,
    dropout,
    make_folder,
    padding_row,
    update_batch,
    update_rows,
)


class Recorder(Instrument):
    """Writes `updates/step-N.parquet` for every optimizer step N, on the main process.

    A step that is repeated after a restart overwrites its file.
    """

    def __init__(
        self, run: Path | str | None = None, *, overwrite: bool = False
    ) -> None:
        """Record into `run`, or into the trainer's output directory.

        `overwrite`: a training that begins deletes updates that are there; otherwise it
        is refused, because they may be those of another training.
        """
        self.run = None if run is None else Path(run)
        self.overwrite = overwrite
        self._rows: list[Row] = []

    def attach(self, trainer: Any) -> None:
        """Create the folder, and delete files of steps that are not taken yet."""
        self.run = self.run or Path(trainer.args.output_dir)
        if trainer.accelerator.is_main_process:
            taken = trainer.state.global_step
            # `Trainer` also saves and resumes a checkpoint before the first step.
            resumed = taken or getattr(trainer, "resumed", False)
            make_folder(self.run, taken, keep=not (resumed or self.overwrite))

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Store the rows of a micro-batch."""
        self._rows += update_rows(micro)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Write the rows of all processes, in the order of their prompts."""
        rows: list[Row] = sorted(gather_object(self._rows), key=lambda r: r["row"])
        self._rows = []
        if trainer.accelerator.is_main_process:
            assert self.run is not None
            settings = UpdateSettings(
                step=step,
                temperature=float(trainer.temperature),
                max_tokens=int(trainer.max_completion_length),
                rewards=tuple(trainer.reward_func_names),
                reward_weights=tuple(trainer.reward_weights.tolist()),
                max_grad_norm=float(trainer.args.max_grad_norm or 0.0),
                loss=loss_settings(trainer),
                padding_row=padding_row(trainer.model),
                beyond_tokens=beyond_tokens(trainer),
            )
            write_update(update_path(self.run, step), update_batch(rows, settings))
        return {}


_LOSS = (
    *("loss_type", "scale_rewards", "beta", "epsilon", "epsilon_high", "delta"),
    *("num_iterations", "importance_sampling_level", "multi_objective_aggregation"),
    *("entropy_coef", "use_adaptive_entropy", "entropy_target", "top_entropy_quantile"),
    *("mask_truncated_completions", "off_policy_mask_threshold"),
    *("use_bias_correction_kl", "sapo_temperature_pos", "sapo_temperature_neg"),
    *("vespo_k_pos", "vespo_k_neg", "vespo_lambda_pos", "vespo_lambda_neg"),
    *("use_vllm", "vllm_importance_sampling_correction"),
    *("vllm_importance_sampling_mode", "vllm_importance_sampling_cap"),
    *("vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"),
)
"""Settings of TRL that decide the loss."""


def loss_settings(trainer: Any) -> str:
    """Return the trainer and its settings of the loss that are not TRL's defaults."""
    # Always the first two: with them, everyone knows which loss it is.
    text = changed_settings(trainer.args, _LOSS, always=2)
    if (chosen := getattr(trainer, "intervention", None)) is not None:
        text += f", intervention={chosen}"
    return f"TRL {version('trl')}: {text}"


def beyond_tokens(trainer: Any) -> tuple[str, ...]:
    """Return what the gradient has that no weight of a token can express, by name."""
    names = dropout(trainer.model)
    if getattr(trainer, "aux_loss_enabled", False):
        names.append("the router's load-balancing loss (router_aux_loss_coef)")
    return tuple(names)
