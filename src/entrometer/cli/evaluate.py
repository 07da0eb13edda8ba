"""Evaluate every checkpoint of a run: pass@1, pass@k, format, length, entropy."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from entrometer.cli.progress import Ticker
from entrometer.errors import InvalidValue
from entrometer.runs import IncompleteDirectory, checkpoints, verify
from entrometer.training.config import TrainConfig, read_config


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate every complete checkpoint of a run; what is done is not done again."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of a training run."""

    problems: int = 128
    """The first so many problems of the test split."""

    fraction: float = 1.0
    """Share of those to evaluate; a larger one contains a smaller."""

    responses: int = 8
    """Responses to each problem."""

    ks: tuple[int, ...] = (1, 8)
    """Each k of pass@k."""

    seed: int = 0
    """Of the responses."""

    dry_run: bool = False
    """Say what would be sampled, and do nothing."""

    print_config: bool = False
    """Print the resolved settings as JSON, and do nothing."""

    json: bool = False
    """Print the table as JSON instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    command = tyro.cli(
        Evaluate,
        args=list(arguments),
        prog="entrometer eval",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    trained = read_config(command.run)
    settings = {
        "problems": command.problems,
        "fraction": command.fraction,
        "responses": command.responses,
        "ks": command.ks,
        "temperature": trained.temperature,
        "max_tokens": trained.max_tokens,
        "seed": command.seed,
    }
    found = _complete(command.run)
    if command.print_config:
        print(json.dumps(settings, indent=1))
        return 0
    if command.dry_run:
        count = round(command.problems * command.fraction) * command.responses
        print(
            f"{len(found)} checkpoints x {count} responses of at most "
            f"{trained.max_tokens} tokens"
        )
        return 0
    return _evaluate(command, trained, settings, found)


def _evaluate(
    command: Evaluate,
    trained: TrainConfig,
    settings: dict[str, Any],
    found: list[tuple[int, Path]],
) -> int:
    from entrometer.evaluation import EvaluationConfig, evaluate, record, render
    from entrometer.tasks import task

    with Ticker() as ticker:
        result = evaluate(
            command.run,
            found,
            task(trained.task, **trained.task_settings()),
            EvaluationConfig(**settings),
            base=trained.policy,
            progress=lambda done, total, note: ticker.tick("eval", done, total, note),
        )
    if command.json:
        rows = [record(row) for row in result.rows]
        print(json.dumps({"table": str(result.directory), "rows": rows}))
    else:
        print(render(result.rows))
    return 0


def _complete(run: Path) -> list[tuple[int, Path]]:
    found = []
    for step, path in checkpoints(run):
        try:
            verify(path)
        except IncompleteDirectory as error:
            print(f"entrometer eval: passed over: {error}", file=sys.stderr)
        else:
            found.append((step, path))
    if not found:
        raise InvalidValue(
            f"expected complete checkpoints in {run}, got none; train it first"
        )
    return found
