"""Convert checkpoints of verl, OpenRLHF and DeepSpeed, and batches of prime-rl."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.text import plain, print_json


@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert a checkpoint to a Trainer's, or a prime-rl batch to a recorded update."""

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """verl's global_step_N; OpenRLHF's _actor; DeepSpeed's global_stepN. Or an update
    batch: prime-rl's token_exports/step_N."""

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Checkpoint to write, which must not exist; for a batch, the run to add it to."""

    base: str | None = None
    """Name or path of the trained model, if the checkpoint does not hold it."""

    temperature: float = 1.0
    """Temperature at which the responses of a batch were sampled."""

    max_tokens: int | None = None
    """Length limit of a batch's responses; by default the tokens of the longest."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Import, arguments, verb="import")
    from entrometer.importers import export_files

    batch = export_files(command.source.expanduser())
    told = _batch(command) if batch else _checkpoint(command)
    if command.json:
        print_json(told)
    else:
        for name, value in told.items():
            print(plain(f"{name.replace('_', ' ')}: {value}"))
    return 0


def _batch(command: Import) -> dict[str, Any]:
    from entrometer.importers import read_prime_rl
    from entrometer.runs import update_path, write_update

    found = read_prime_rl(
        command.source.expanduser(),
        temperature=command.temperature,
        max_tokens=command.max_tokens,
    )
    path = update_path(command.out, found.settings.step)
    if path.exists():
        raise _there(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_update(path, found)
    return {
        "update": path,
        "step": found.settings.step,
        "responses": found.count,
        "prompts": len(set(found.group.tolist())),
        "max_tokens": found.settings.max_tokens,
    }


def _checkpoint(command: Import) -> dict[str, Any]:
    if command.out.exists():
        raise _there(command.out)
    from entrometer.importers import read_foreign, write_checkpoint

    found = read_foreign(command.source, base=command.base)
    return {
        "checkpoint": write_checkpoint(found, command.out, base=command.base),
        "trained_parameters": sum(m.numel() for m in found.first_moment.values()),
        "step": found.step,
        "learning_rate": found.learning_rate,
    }


def _there(path: Path) -> InvalidValue:
    return InvalidValue(
        f"expected no {path}, got one that exists; name another, or remove it"
    )
