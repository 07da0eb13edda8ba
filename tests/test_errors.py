import inspect

import jaxtyping
import pytest

from entrometer import errors
from entrometer.errors import (
    EntrometerError,
    InvalidValue,
    MissingKey,
    ShapeMismatch,
    nearest_name,
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
