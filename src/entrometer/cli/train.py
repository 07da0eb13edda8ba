"""Train a policy on a task: imitation, then Dr-GRPO; or go on with a run."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.cli.progress import Ticker
from entrometer.errors import InvalidValue
from entrometer.recipes import recipe
from entrometer.training.config import TrainConfig, read_config


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a policy on a task, or go on with a run that was stopped."""

    run: Path | None = None
    """Directory of a new run."""

    resume: Path | None = None
    """Directory of a run to go on with; its settings are its own."""

    additional_steps: int = 0
    """Dr-GRPO steps to add to a resumed run."""

    recipe: str | None = None
    """Begin with the settings of a recipe: reference or tiny-twin."""

    dry_run: bool = False
    """Say what would be done, and do nothing."""

    print_config: bool = False
    """Print the resolved settings as JSON, and do nothing."""

    json: bool = False
    """Print one JSON object when done."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(
        default_factory=TrainConfig
    )
    """Settings of the run."""


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    command = tyro.cli(
        Train,
        args=list(arguments),
        default=Train(config=_begin_with(arguments)),
        prog="entrometer train",
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    config, directory = _resolve(command)
    if command.print_config:
        print(json.dumps(asdict(config), indent=1))
        return 0
    if command.dry_run:
        print(_plan(config))
        return 0
    from entrometer.training.run import prolong, train

    if command.resume is not None:
        config = prolong(directory, command.additional_steps)
    with Ticker() as ticker:
        train(config, directory, progress=ticker.training)
    if command.json:
        print(json.dumps({"run": str(directory), "steps": config.steps}))
    return 0


def _begin_with(arguments: Sequence[str]) -> TrainConfig:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--recipe", default=None)
    name = parser.parse_known_args(list(arguments))[0].recipe
    return TrainConfig() if name is None else recipe(name)


def _resolve(command: Train) -> tuple[TrainConfig, Path]:
    if command.resume is not None:
        if command.run is not None:
            raise InvalidValue(
                "expected --run for a new run or --resume for an old one, got both; "
                "leave one out"
            )
        config = read_config(command.resume)
        steps = config.steps + command.additional_steps
        return replace(config, steps=steps), command.resume
    if command.additional_steps:
        raise InvalidValue("--additional-steps is for a run to --resume; name it")
    if command.run is None:
        if command.dry_run or command.print_config:
            return command.config, Path()
        raise InvalidValue("expected --run DIRECTORY or --resume DIRECTORY, got none")
    if (command.run / "config.json").exists():
        raise InvalidValue(
            f"{command.run} holds a run already; go on with it by --resume "
            f"{command.run}, or choose another directory"
        )
    return command.config, command.run


def _plan(config: TrainConfig) -> str:
    responses = config.steps * config.prompts * config.responses // config.iterations
    return "\n".join(
        [
            f"imitation: {config.imitation.steps} updates of "
            f"{config.imitation.batch} demonstrations",
            f"Dr-GRPO: {config.steps} updates of {config.prompts} prompts x "
            f"{config.responses} responses; {responses} responses to sample, at most "
            f"{responses * config.max_tokens} tokens",
            f"checkpoints: {config.steps // config.save_every + 1}",
        ]
    )
