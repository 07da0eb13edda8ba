from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import pytest
import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue


class Part(StrEnum):
    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command."""

    paths: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Paths."""

    prompts: int = 8
    """Prompts."""

    part: Part = Part.TRAIN
    """Part."""

    precision: Literal["float32", "float64"] = "float32"
    """Precision, with a long description that has to be wrapped in a box of eighty."""

    resume: Flag = False
    """Go on."""


def test_settings_override_the_default():
    default = Command(prompts=3, part=Part.TEST)
    found = parse(Command, ["a", "b", "--resume"], verb="x", default=default)
    expected = Command(paths=("a", "b"), prompts=3, part=Part.TEST, resume=True)
    assert found == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prompst", "3"], "no setting '--prompst'. Did you mean '--prompts'?"),
        (["a", "--prompst=3"], "no setting '--prompst'. Did you mean '--prompts'?"),
        (["--no-resume"], "no setting '--no-resume'. Did you mean '--resume'?"),
        (["--prompts", "many"], "--prompts: invalid literal for int()"),
        (["--prompts"], "Missing value for argument '--prompts'"),
        (["--part", "tset"], "Expected one of ('train', 'test')"),
        (["--precision", "half"], "Expected one of ('float32', 'float64')"),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name(arguments, said, capsys):
    with pytest.raises(InvalidValue) as refused:
        parse(Command, arguments, verb="x")
    message = str(refused.value)
    assert said in message
    assert "\n" not in message
    assert not any(c in message for c in "╭│─╯")
    assert capsys.readouterr() == ("", "")


def test_help_is_printed_and_ends_well(capsys):
    with pytest.raises(SystemExit) as stopped:
        parse(Command, ["--help"], verb="x")
    assert stopped.value.code == 0
    assert "--prompts INT" in capsys.readouterr().out
