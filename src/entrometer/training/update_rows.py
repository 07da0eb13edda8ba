"""Rows and settings of a recorded update, from what a trainer shows.

Imports neither transformers nor TRL; see `micro_batch`.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from entrometer.errors import InvalidValue
from entrometer.runs import UpdateBatch, UpdateSettings, prompt_name, update_path
from entrometer.runs.rollouts import masks
from entrometer.training.micro_batch import MicroBatch

Row = dict[str, Any]  #: A response by the names of the columns of `UpdateBatch`.


_NOT_WRITTEN = dict.fromkeys(("advantage", "alpha", "gamma"), np.float32(0)) | {
    name: np.float32(np.nan) for name in ("S", "S_old", "H", "S_ref", "S_engine")
}
"""Values of a token that the policy did not write: no weight, nothing measured."""


def update_rows(micro: MicroBatch) -> list[Row]:
    """Return one row per response of a micro-batch, cut to the response's length."""
    row, group = micro.row.tolist(), micro.group.tolist()
    prompts, prompt_mask = micro.prompt_ids.cpu(), micro.prompt_mask.cpu().bool()
    counted = micro.response_mask.cpu().bool()
    tokens = micro.response_ids.cpu()
    mask = micro.written_mask
    written = torch.ones_like(counted) if mask is None else mask.cpu().bool()
    columns = {
        "advantage": micro.advantage.expand_as(micro.S),
        **{n: getattr(micro, n) for n in ("S", "S_old", "H", "alpha", "gamma")},
        **{n: getattr(micro, n) for n in ("S_ref", "S_engine")},
    }
    tables = {n: x.float().cpu().numpy() for n, x in columns.items() if x is not None}
    rewards = micro.rewards.float().cpu().numpy()
    rows: list[Row] = []
    for i in range(len(row)):
        prompt = prompts[i][prompt_mask[i]].numpy().astype(np.int64)
        # Up to the last counted token: padding on the right is not counted. Neither is
        # the output of a tool in between, but that is part of the response.
        length = int(counted[i].nonzero().max()) + 1 if counted[i].any() else 1
        # TRL masks a truncated response as a whole, together with its tools' output.
        any_counted = bool(counted[i].any())
        by_policy = written[i, :length].numpy() if any_counted else np.ones(1, np.bool_)
        rows.append(
            {
                "row": row[i],
                "group": group[i],
                "prompt": prompt_name(prompt),
                "prompt_tokens": prompt,
                "response_tokens": tokens[i, :length].numpy().astype(np.int64),
                "counted": counted[i, :length].numpy(),
                "rewards": rewards[i],
                "written": by_policy,
                **{
                    name: np.where(by_policy, table[i, :length], _NOT_WRITTEN[name])
                    for name, table in tables.items()
                },
            }
        )
    return rows


def update_batch(rows: list[Row], settings: UpdateSettings) -> UpdateBatch:
    """Return the batch that these rows are, in their order."""
    columns: dict[str, Any] = {n: tuple(row[n] for row in rows) for n in rows[0]}
    for name in ("row", "group", "prompt"):
        columns[name] = np.array(columns[name], np.int64)
    columns["rewards"] = np.stack(columns["rewards"])
    columns["written"] = masks(columns["written"])
    return UpdateBatch(**columns, settings=settings)


def make_folder(run: Path, last: int, *, keep: bool = False) -> None:
    """Make the folder of updates, without files of steps after the step `last`.

    `keep` raises instead of deleting: a training that begins may have been given the
    directory of another one.
    """
    folder = update_path(run, 0).parent
    folder.mkdir(parents=True, exist_ok=True)
    if keep and any(folder.glob("step-*.parquet")):
        raise InvalidValue(
            f"expected no recorded updates in {folder} for a training that begins, got "
            "some; give another output directory, resume from a checkpoint, or delete "
            "that folder"
        )
    name = update_path(run, last).name
    for path in folder.glob("step-*.parquet"):
        if path.name > name:
            path.unlink()
    for path in folder.glob(".step-*.tmp"):
        # Left by a process that was killed while writing.
        path.unlink()


def changed_settings(config: Any, names: Iterable[str], *, always: int = 0) -> str:
    """Return settings of a dataclass that are not its defaults, and the first `always`.

    Names that the dataclass does not have, as of another version, are left out.
    """
    defaults = {f.name: f.default for f in fields(config)}
    named = {name: getattr(config, name) for name in names if name in defaults}
    return ", ".join(
        f"{name}={value}"
        for i, (name, value) in enumerate(named.items())
        if i < always or value != defaults[name]
    )


def padding_row(model: Any) -> int | None:
    """Return the row of the embedding whose gradient as an input torch drops."""
    row: int | None = getattr(model.get_input_embeddings(), "padding_idx", None)
    return row


def dropout(model: nn.Module) -> list[str]:
    """Return the dropouts of a model that is trained, by name."""
    found = {m.p for m in model.modules() if isinstance(m, nn.Dropout)}
    # Attention drops its weights by a function, with a setting of the module. Some
    # architectures have a `Dropout` of this name, which is found above.
    settings = [getattr(m, "attention_dropout", None) for m in model.modules()]
    found |= {p for p in settings if isinstance(p, float)}
    return [f"dropout of {p:g}" for p in sorted(found) if p > 0]
