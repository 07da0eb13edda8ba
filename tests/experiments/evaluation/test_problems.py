from dataclasses import replace
from itertools import pairwise

import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.evaluation.plan import chosen_problems
from tests.experiments.evaluation.toy import Toy


def chosen(config, **changes) -> list[int]:
    problems = chosen_problems(Toy(size=200), replace(config, **changes))
    return [p.index for p in problems]


def test_all_of_the_split_unless_told_otherwise(config):
    assert chosen(config) == list(range(200))


def test_a_count_takes_the_first(config):
    assert chosen(config, problems=7) == list(range(7))


def test_a_larger_fraction_contains_a_smaller(config):
    fractions = [0.001, 0.01, 0.25, 0.5, 0.99, 1.0]
    sets = [chosen(config, fraction=f) for f in fractions]
    assert [len(s) for s in sets] == [1, 2, 50, 100, 198, 200]
    for smaller, larger in pairwise(sets):
        assert set(smaller) < set(larger)


def test_a_fraction_is_spread_over_the_set_and_in_order(config):
    half = chosen(config, fraction=0.5)
    assert half == sorted(half)
    # Of 100 drawn from 200 the first half has 50, with a deviation of 3.5.
    assert 36 < sum(i < 100 for i in half) < 64


def test_the_choice_is_the_same_on_every_machine(config):
    assert chosen(config, fraction=0.03) == [51, 55, 146, 149, 152, 178]


def test_a_fraction_is_of_the_first_so_many(config):
    assert chosen(config, problems=20, fraction=0.5) != chosen(config, problems=10)
    assert max(chosen(config, problems=20, fraction=0.5)) < 20


def test_a_split_without_problems_is_refused(config):
    with pytest.raises(InvalidValue, match="'test' of the task 'toy', got none"):
        chosen_problems(Toy(size=0), config)
