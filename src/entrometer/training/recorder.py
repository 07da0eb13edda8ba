"""Recording of every update batch as a table next to the checkpoints."""

from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from torch import nn

from entrometer.runs import (
    UpdateBatch,
    UpdateSettings,
    prompt_name,
    update_path,
    write_update,
)
from entrometer.training.instruments import Instrument, MicroBatch

_Row = dict[str, Any]


class Recorder(Instrument):
    """Writes `updates/step-N.parquet` for every optimizer step N, on the main process.

    A step that is repeated after a restart overwrites its file.
    """

    def __init__(self, run: Path | str | None = None) -> None:
        """Record into `run`, or into the trainer's output directory."""
        self.run = None if run is None else Path(run)
        self._rows: list[_Row] = []

    def attach(self, trainer: Any) -> None:
        """Create the folder, and delete files of steps that are not taken yet."""
        self.run = self.run or Path(trainer.args.output_dir)
        if not trainer.accelerator.is_main_process:
            return
        folder = update_path(self.run, 0).parent
        folder.mkdir(parents=True, exist_ok=True)
        last = update_path(self.run, trainer.state.global_step).name
        for path in folder.glob("step-*.parquet"):
            if path.name > last:
                path.unlink()
        for path in folder.glob(".step-*.tmp"):
            # Left by a process that was killed while writing.
            path.unlink()

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Store the rows of a micro-batch."""
        self._rows += _rows(micro)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Write the rows of all processes, in the order of their prompts."""
        rows: list[_Row] = sorted(gather_object(self._rows), key=lambda r: r["row"])
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
                padding_row=_padding_row(trainer.model),
                beyond_tokens=beyond_tokens(trainer),
            )
            write_update(update_path(self.run, step), _batch(rows, settings))
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
)
"""Settings of TRL that decide the loss."""


def loss_settings(trainer: Any) -> str:
    """Return the trainer and its settings of the loss that are not TRL's defaults."""
    args = trainer.args
    defaults = {f.name: f.default for f in fields(args)}
    named = {name: getattr(args, name) for name in _LOSS if name in defaults}
    # Always the first two: with them, everyone knows which loss it is.
    shown = [
        f"{name}={value}"
        for i, (name, value) in enumerate(named.items())
        if i < 2 or value != defaults[name]
    ]
    if (chosen := getattr(trainer, "intervention", None)) is not None:
        shown.append(f"intervention={chosen}")
    return f"TRL {version('trl')}: {', '.join(shown)}"


def _padding_row(model: Any) -> int | None:
    embedding = model.get_input_embeddings()
    row: int | None = getattr(embedding, "padding_idx", None)
    return row


def beyond_tokens(trainer: Any) -> tuple[str, ...]:
    """Return what the gradient has that no weight of a token can express, by name."""
    dropped = {
        module.p
        for module in trainer.model.modules()
        if isinstance(module, nn.Dropout) and module.p > 0
    }
    found = [f"dropout of {p:g}" for p in sorted(dropped)]
    if getattr(trainer, "aux_loss_enabled", False):
        found.append("the router's load-balancing loss (router_aux_loss_coef)")
    return tuple(found)


def _rows(micro: MicroBatch) -> list[_Row]:
    row, group = micro.row.tolist(), micro.group.tolist()
    prompts, prompt_mask = micro.prompt_ids.cpu(), micro.prompt_mask.cpu().bool()
    counted = micro.response_mask.cpu().bool()
    tokens = micro.response_ids.cpu()
    columns = {
        "advantage": micro.advantage.expand_as(micro.S),
        **{n: getattr(micro, n) for n in ("S", "S_old", "H", "alpha", "gamma")},
        **{n: getattr(micro, n) for n in ("S_ref", "S_engine")},
    }
    tables = {n: x.float().cpu().numpy() for n, x in columns.items() if x is not None}
    rewards = micro.rewards.float().cpu().numpy()
    rows: list[_Row] = []
    for i in range(len(row)):
        prompt = prompts[i][prompt_mask[i]].numpy().astype(np.int64)
        # Up to the last counted token: padding on the right is not counted. Neither is
        # the output of a tool in between, but that is part of the response.
        length = int(counted[i].nonzero().max()) + 1 if counted[i].any() else 1
        rows.append(
            {
                "row": row[i],
                "group": group[i],
                "prompt": prompt_name(prompt),
                "prompt_tokens": prompt,
                "response_tokens": tokens[i, :length].numpy().astype(np.int64),
                "counted": counted[i, :length].numpy(),
                "rewards": rewards[i],
                **{name: table[i, :length] for name, table in tables.items()},
            }
        )
    return rows


def _batch(rows: list[_Row], settings: UpdateSettings) -> UpdateBatch:
    columns: dict[str, Any] = {n: tuple(row[n] for row in rows) for n in rows[0]}
    for name in ("row", "group", "prompt"):
        columns[name] = np.array(columns[name], np.int64)
    columns["rewards"] = np.stack(columns["rewards"])
    return UpdateBatch(**columns, settings=settings)
