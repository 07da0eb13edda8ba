import inspect
import math
from dataclasses import dataclass
from typing import Literal

import jaxtyping
import pytest

from entrometer import errors
from entrometer.errors import (
    EntrometerError,
    InvalidValue,
    MissingKey,
    ShapeMismatch,
    nearest_name,
    require_types,
)


@pytest.mark.parametrize(
    ("error", "standard"),
    [(ShapeMismatch, ValueError), (InvalidValue, ValueError), (MissingKey, KeyError)],
)
def test_is_caught_as_its_standard_type(error, standard):
    with pytest.raises(standard, match="expected this, got that"):
        raise error("expected this, got that")


def test_every_error_has_the_one_root():
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass)}
    raised = {c for c in classes if issubclass(c, BaseException)}
    assert raised > {ShapeMismatch, InvalidValue, MissingKey}
    assert all(issubclass(c, EntrometerError) for c in raised)


@pytest.mark.parametrize("error", [ShapeMismatch, InvalidValue, MissingKey])
def test_message_reads_as_written(error):
    message = "no column 'entropy'; the table has: 'H', 'S'"
    assert str(error(message)) == message


def test_nearest_name_suggests_the_closest():
    known = ["entropy", "entropies", "reward"]
    assert nearest_name("entrpy", known) == " Did you mean 'entropy'?"


@pytest.mark.parametrize("known", [[], ["reward", "seed"]])
def test_nearest_name_is_silent_when_nothing_is_close(known):
    assert nearest_name("entropy", known) == ""


def test_annotations_are_checked_while_tests_run():
    """Without the import hook every shape annotation would be decoration."""
    with pytest.raises(jaxtyping.TypeCheckError):
        nearest_name(3, [])


@dataclass(frozen=True)
class Settings:
    count: int = 1
    rate: float = 0.5
    name: str | None = None
    names: tuple[str, ...] = ()
    betas: tuple[float, float] = (0.9, 1)
    kind: Literal["a", "b"] = "a"
    on: bool = False


def test_settings_of_their_types_are_taken():
    require_types(Settings())
    require_types(Settings(rate=2, name="x", names=("y", "z"), kind="b", on=True))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "1"),
        ("count", 1.0),
        ("count", True),
        ("rate", math.inf),
        ("rate", math.nan),
        ("rate", "0.5"),
        ("name", 5),
        ("names", ["y"]),
        ("names", (5,)),
        ("betas", (0.9,)),
        ("betas", (0.9, math.nan)),
        ("kind", "c"),
        ("on", 1),
    ],
)
def test_settings_of_another_type_are_refused_by_name(name, value):
    with pytest.raises(InvalidValue, match=f"config: expected {name} to be"):
        require_types(Settings(**{name: value}), where="config: ")
