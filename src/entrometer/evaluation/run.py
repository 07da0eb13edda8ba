"""All checkpoints of a run, judged by the same problems."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from entrometer.errors import InvalidValue
from entrometer.evaluation.checkpoint_shards import CheckpointShards
from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.keys import FREE, evaluation_key
from entrometer.evaluation.problems import chosen_problems
from entrometer.evaluation.results import Row, rows
from entrometer.evaluation.table import write_table
from entrometer.policy import load_policy
from entrometer.policy.content import weights_key
from entrometer.runs import hold, seal, verified
from entrometer.runs.complete import damages
from entrometer.runs.settings import CONFIG, as_json, save_settings
from entrometer.tasks.registry import Task

Progress = Callable[[int, int, str], None]
"""Told the responses done, those in all, and what just happened, in one plain line."""


@dataclass(frozen=True)
class Evaluation:
    """The results of a run, and where they are kept."""

    directory: Path
    """Holds `config.json`, `table.parquet` and a directory for each checkpoint."""

    rows: tuple[Row, ...]
    """One a checkpoint, by step."""

    checkpoints: tuple[CheckpointShards, ...]
    """The responses that each row is of."""


def evaluate(
    run: Path | str,
    checkpoints: Sequence[tuple[int, Path]],
    task: Task,
    config: EvaluationConfig,
    *,
    base: str | Path | None = None,
    device: torch.device | str = "cpu",
    resume: bool = False,
    progress: Progress = lambda done, total, note: None,
) -> Evaluation:
    """Evaluate checkpoints of a run, going on where an earlier attempt stopped.

    Responses are kept in shards of a few problems under `run/evaluation/KEY`, where
    KEY is a hash of the settings and the problems. A finished shard is not computed
    again; one that is damaged, or was measured on other weights, is, and `progress` is
    told. A policy is loaded only if a shard of it is missing.

    Args:
        run: The directory of the run.
        checkpoints: Step and directory of each, a model or an adapter.
        task: Problems and their judge.
        config: What is measured.
        base: What adapters sit on, if not what they recorded.
        device: Where the policies compute.
        resume: Refuse to begin another evaluation because the problems were rewritten;
            without, `progress` is told.
        progress: Called after each shard.
    """
    ordered = sorted(checkpoints)
    _require_steps([step for step, _ in ordered])
    problems = chosen_problems(task, config)
    key = evaluation_key(task, problems, config)
    directory = Path(run) / "evaluation" / key
    about = {"task": task.name, "device": str(device), "config": asdict(config)}
    parts = tuple(
        problems[i : i + config.shard_prompts]
        for i in range(0, len(problems), config.shard_prompts)
    )
    done, total = 0, len(ordered) * len(problems) * config.responses

    def tell(more: int, note: str) -> None:
        nonlocal done
        done += more
        # A note may quote a file: no control character of it reaches a terminal.
        plain = "".join(c if c.isprintable() else " " for c in note)
        progress(done, total, plain)

    if note := _rewritten(directory, about):
        if resume:
            raise InvalidValue(f"{note}; restore them, or leave out --resume")
        tell(0, note)
    kept, found = [], []
    with hold(directory):
        # Before the new settings take the place of the manifest that lists the shards.
        altered = damages(directory)
        save_settings(directory, about, {"kind": "evaluation", "finished": False})
        for step, path in ordered:
            verified(path, beside=False)
            shards = CheckpointShards(
                step=step,
                checkpoint=Path(path),
                directory=directory / f"checkpoint-{step}",
                subject=f"{key} of {weights_key(path, base)}",
                parts=parts,
                altered={
                    name: str(error)
                    for name, error in altered.items()
                    if name.startswith(f"checkpoint-{step}/")
                },
            )
            load = partial(
                load_policy, path, base=base, precision=config.precision, device=device
            )
            kept.append(shards)
            found.append((step, shards.sums(task, config, load, tell)))
        results = rows(found, config.all_ks)
        write_table(directory / "table.parquet", results)
        seal(directory, about={"kind": "evaluation", "settings": as_json(about)})
    return Evaluation(directory, results, tuple(kept))


def _rewritten(directory: Path, about: Mapping[str, Any]) -> str | None:
    """Name an evaluation of the same settings, whose problems then were others.

    The name of its directory is a hash of settings and problems.
    """

    def deciding(saved: Any) -> dict[str, Any]:
        free = dict.fromkeys(FREE)
        return {"task": saved["task"], "config": {**saved["config"], **free}}

    for path in sorted(directory.parent.glob(f"*/{CONFIG}")):
        try:
            saved = deciding(json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if path.parent.name != directory.name and saved == deciding(as_json(about)):
            return (
                f"{directory.parent}: expected the problems of the evaluation "
                f"{path.parent.name}, which has the same settings, got others"
            )
    return None


def _require_steps(steps: list[int]) -> None:
    if not steps or len(set(steps)) < len(steps):
        raise InvalidValue(
            f"expected at least one checkpoint, each of another step, got {steps}; "
            "name each checkpoint of the run once"
        )
