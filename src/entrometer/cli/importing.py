"""Convert checkpoints of verl, OpenRLHF, DeepSpeed, and batches of prime-rl, slime."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.text import plain, print_json

if TYPE_CHECKING:
    from entrometer.importers.read import ReadDump


@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert a checkpoint to a Trainer's, or a dumped batch to a recorded update."""

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """verl's global_step_N; OpenRLHF's _actor; DeepSpeed's global_stepN. Or an update
    batch: prime-rl's token_exports/step_N; slime's train_data/N.pt."""

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
    if not command.source.expanduser().exists():
        raise InvalidValue(
            f"expected a checkpoint or a batch in {command.source}, got no such path; "
            "name one that exists"
        )
    from entrometer.importers import dump_reader

    read = dump_reader(command.source.expanduser())
    summary = _batch(command, read) if read else _checkpoint(command)
    if command.json:
        print_json(summary)
    else:
        for name, value in summary.items():
            print(plain(f"{name.replace('_', ' ')}: {value}"))
    return 0


def _batch(command: Import, read: "ReadDump") -> dict[str, Any]:
    from entrometer.runs import update_path, write_update

    batch = read(
        command.source.expanduser(),
        temperature=command.temperature,
        max_tokens=command.max_tokens,
    )
    path = update_path(command.out, batch.settings.step)
    if path.exists():
        raise _there(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_update(path, batch)
    return {
        "update": path,
        "step": batch.settings.step,
        "responses": batch.count,
        "prompts": len(set(batch.group.tolist())),
        "max_tokens": batch.settings.max_tokens,
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
