"""Arguments to a command, and every mistake in them told in one line."""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Annotated, TypeVar

import tyro

from entrometer.errors import InvalidValue, nearest_name

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""False unless it is named; there is no `--no-` of it."""

Command = TypeVar("Command")

_BORDERS = re.compile(r"[─│╭╮╰╯]")


@dataclass(frozen=True, kw_only=True)
class Habits:
    """What every verb that computes can be asked."""

    dry_run: Flag = False
    """Say what would be done and how long it would take, and write nothing."""

    print_config: Flag = False
    """Print the resolved settings as JSON, and do nothing."""

    json: Flag = False
    """Print one JSON object instead of text."""


def parse(
    kind: type[Command],
    arguments: Sequence[str],
    *,
    verb: str,
    default: Command | None = None,
) -> Command:
    """Read a command; `--help` prints and exits, a mistake is `InvalidValue`."""
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            command, unknown = _tyro(kind, list(arguments), verb, default)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InvalidValue(_one_line(told.getvalue())) from None
    if unknown:
        # The value of an unknown setting is left over with it.
        name = next((x for x in unknown if x.startswith("-")), unknown[0])
        name = name.partition("=")[0]
        what = "setting" if name.startswith("-") else "place for the argument"
        near = nearest_name(name, _settings(kind, verb))
        raise InvalidValue(
            f"no {what} {name!r}.{near} `entrometer {verb} --help` lists the settings"
        )
    return command


def _tyro(
    kind: type[Command], arguments: list[str], verb: str, default: Command | None
) -> tuple[Command, list[str]]:
    return tyro.cli(
        kind,
        args=arguments,
        prog=f"entrometer {verb}",
        default=tyro.MISSING_NONPROP if default is None else default,
        config=(tyro.conf.EnumChoicesFromValues,),
        return_unknown_args=True,
    )


def _settings(kind: type, verb: str) -> list[str]:
    told = io.StringIO()
    try:
        with redirect_stdout(told):
            _tyro(kind, ["--help"], verb, None)
    except SystemExit:
        pass
    return sorted(set(re.findall(r"--[a-z][\w.-]*", told.getvalue())))


def _one_line(box: str) -> str:
    """What a box says above its first rule, without its title and its borders."""
    said = []
    for line in box.splitlines()[1:]:
        text = _BORDERS.sub("", line).strip()
        if not text:
            break
        said.append(text)
    return " ".join(said).removeprefix("Error parsing ")
