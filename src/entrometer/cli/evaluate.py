"""Evaluate every checkpoint of a run: pass@1, pass@k, format, length, entropy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.api.output import plain, print_json
from entrometer.api.progress import Ticker
from entrometer.cli.parse import Flag, Habits, parse
from entrometer.errors import InvalidValue
from entrometer.evaluation.config import EvaluationConfig
from entrometer.runs import IncompleteDirectory, checkpoints, verify
from entrometer.training.config import TrainConfig, read_config

Found = list[tuple[int, Path]]
"""Step and directory of each checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluationConfig, Habits):
    """Evaluate every complete checkpoint of a run; what is done is not done again.

    The temperature and the length limit are by default those of the training.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a training run."""

    problems: int | None = 128
    """The first so many problems of the split; None for all."""

    device: str = "cpu"
    """Where the policies compute."""

    inspect: Path | None = None
    """Directory that gets the results as logs of Inspect too, one a checkpoint, which
    `inspect view` opens."""

    resume: Flag = False
    """Refuse to begin a new evaluation because the task's problems were rewritten.
    Finished shards are reused with or without it."""


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    asked = parse(Evaluate, arguments, verb="eval")
    trained = read_config(asked.run)
    default = Evaluate(
        run=asked.run, temperature=trained.temperature, max_tokens=trained.max_tokens
    )
    command = parse(Evaluate, arguments, verb="eval", default=default)
    names = [f.name for f in fields(EvaluationConfig)]
    config = EvaluationConfig(**{name: getattr(command, name) for name in names})
    if command.print_config:
        print_json(config, indent=1)
        return 0
    found = complete_checkpoints(command.run)
    if command.dry_run:
        from entrometer.cli.evaluate_plan import dry_run

        dry_run(command, trained, config, found)
        return 0
    return carry_out(command, trained, config, found)


def carry_out(
    command: Evaluate, trained: TrainConfig, config: EvaluationConfig, found: Found
) -> int:
    """Evaluate, show how far it has come, and print the table."""
    from entrometer.evaluation import evaluate, record, render
    from entrometer.tasks import task

    if command.inspect is not None:
        # Before anything is sampled: Inspect may not be installed.
        from entrometer.evaluation.inspect_logs import write_inspect_logs
    chosen = task(trained.task, **trained.task_settings())
    with Ticker() as ticker:
        result = evaluate(
            command.run,
            found,
            chosen,
            config,
            base=trained.policy,
            device=command.device,
            resume=command.resume,
            progress=lambda done, total, note: ticker.tick("eval", done, total, note),
        )
    logs: tuple[Path, ...] = ()
    if command.inspect is not None:
        logs = write_inspect_logs(command.inspect, result, chosen, config)
    if command.json:
        rows = [record(row) for row in result.rows]
        table = result.directory / "table.parquet"
        print_json({"table": table, "rows": rows, "inspect": logs})
    else:
        print(render(result.rows), end="")
        if logs:
            print(f"{len(logs)} logs; inspect view --log-dir {command.inspect}")
    return 0


def complete_checkpoints(run: Path) -> Found:
    """Checkpoints of a run that are whole; the others are named on stderr."""
    found = []
    for step, path in checkpoints(run):
        try:
            verify(path)
        except IncompleteDirectory as error:
            print(plain(f"entrometer eval: passed over: {error}"), file=sys.stderr)
        else:
            found.append((step, path))
    if not found:
        raise InvalidValue(
            f"expected complete checkpoints in {run}, got none; train it first"
        )
    return found
