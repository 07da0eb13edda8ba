"""Train a policy on a task: imitation, then Dr-GRPO; or resume a run."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.api.progress import Ticker
from entrometer.cli.flags import CommonFlags, Flag, parse
from entrometer.errors import InvalidValue
from entrometer.recipes import recipe
from entrometer.text import plain, print_json
from entrometer.training.config import TrainConfig, read_config


@dataclass(frozen=True, kw_only=True)
class Train(CommonFlags):
    """Train a policy on a task, or resume a run that was stopped."""

    run: Path | None = None
    """Directory of the run."""

    resume: Flag = False
    """Resume the run in --run with its own settings; `--resume DIRECTORY` is short for
    `--run DIRECTORY --resume`."""

    additional_steps: int = 0
    """Dr-GRPO steps to add to a resumed run."""

    recipe: str | None = None
    """Start from the settings of a recipe: calculator, qwen25-gsm8k, reference,
    tiny-twin or workbench."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(
        default_factory=TrainConfig
    )
    """Settings of the run."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    arguments = _spelled_out(arguments)
    default = Train(config=_begin_with(arguments))
    command = parse(Train, arguments, verb="train", default=default)
    config, directory = _resolve(command)
    if command.print_config:
        print_json(asdict(config), indent=1)
        return 0
    if command.dry_run:
        from entrometer.cli.train_plan import dry_run

        dry_run(config, directory, as_json=command.json)
        return 0
    assert directory is not None
    from entrometer.training.run import prolong, train

    if command.resume:
        config = prolong(directory, command.additional_steps)
    with Ticker() as ticker:
        train(config, directory, progress=ticker.training)
    if command.json:
        print_json({"run": directory, "steps": config.steps})
    else:
        print(plain(f"run: {directory}"))
    return 0


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """`--resume DIRECTORY` as `--run DIRECTORY --resume`."""
    spelled: list[str] = []
    rest = list(arguments)
    while rest:
        name, given, value = rest.pop(0).partition("=")
        if name != "--resume":
            spelled.append(name + given + value)
            continue
        if not given and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        spelled += ["--run", value, "--resume"] if value else ["--resume"]
    if sum(x == "--run" or x.startswith("--run=") for x in spelled) > 1:
        raise InvalidValue(
            "expected --run for a new run or --resume for an old one, got a directory "
            "for both; leave one out"
        )
    return spelled


def _begin_with(arguments: Sequence[str]) -> TrainConfig:
    """The settings that others override: the resumed run's, a recipe's, or none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--recipe")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    known, _ = parser.parse_known_args(list(arguments))
    if known.help:
        return TrainConfig()
    begin = TrainConfig() if known.recipe is None else recipe(known.recipe)
    resumed = known.resume and known.run is not None
    return read_config(known.run) if resumed else begin


def _resolve(command: Train) -> tuple[TrainConfig, Path | None]:
    config, run = command.config, command.run
    if not command.resume and command.additional_steps:
        raise InvalidValue("--additional-steps needs a run to --resume; name one")
    if run is None:
        if command.resume or not (command.dry_run or command.print_config):
            raise InvalidValue(
                "expected --run DIRECTORY or --resume DIRECTORY, got none; name one"
            )
        return config, None
    if not command.resume:
        if (run / "config.json").exists():
            raise InvalidValue(
                f"{run} holds a run already; resume it with --resume, or choose "
                "another directory"
            )
        return config, run
    saved = asdict(read_config(run))
    other = [k for k, v in asdict(config).items() if v != saved[k]]
    if other:
        raise InvalidValue(
            f"expected {other[0]}={saved[other[0]]!r}, which {run} started with, got "
            f"{getattr(config, other[0])!r}; leave it out, or choose another directory"
        )
    return replace(config, steps=config.steps + command.additional_steps), run
