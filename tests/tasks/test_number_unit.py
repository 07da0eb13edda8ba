import pytest

from entrometer.tasks.number_unit import (
    REMARKS,
    SINGULARS,
    STOP_WORDS,
    SYMBOLS,
    is_unit,
)


def follows(text, *, currency=False):
    return is_unit(text, currency=currency)


@pytest.mark.parametrize("word", sorted(STOP_WORDS - {"percent"}))
def test_a_word_that_changes_the_value_is_no_part_of_a_unit(word):
    for text in [f" {word}", f" {word} apples", f" apples {word}", f" per {word}"]:
        assert not follows(text)
        assert not follows(text, currency=True)
    assert not follows(f" {word.upper()}")
    assert not follows(rf"\text{{ {word}}}")


def test_nothing_follows_a_percentage():
    assert follows(" percent")
    for text in [" percent off", " percent of sales", " percent apples", "% more"]:
        assert not follows(text)
        assert not follows(text, currency=True)


def test_only_a_length_or_a_second_has_a_power():
    assert follows(" cm²")
    assert follows(" m/s^2")
    assert not follows(" USD²")
    assert not follows(" kg^2")


def test_no_stop_word_is_listed_as_a_unit():
    assert not STOP_WORDS & (SINGULARS | REMARKS | SYMBOLS)


@pytest.mark.parametrize(
    "text", [" apples", " hours", " people", " km", " kg/m^3", "%"]
)
def test_units(text):
    assert follows(text)


def test_a_noun_is_in_the_plural_unless_it_is_listed():
    assert follows(" apples")
    assert follows(" hour")
    assert not follows(" apple")


def test_a_symbol_behind_a_currency_could_be_a_scale():
    assert follows("m")
    assert not follows("m", currency=True)
    assert follows(" USD", currency=True)
    assert follows("/hour", currency=True)
    assert not follows("/hour")


def test_words_need_a_blank_and_symbols_do_not():
    assert follows("km")
    assert not follows("apples")
    assert not follows("th")


@pytest.mark.parametrize(
    "text",
    [" mm dollars", " big red juicy apples", " apples of a b c", " apples, pears"],
)
def test_a_unit_is_a_short_phrase(text):
    assert not follows(text)
