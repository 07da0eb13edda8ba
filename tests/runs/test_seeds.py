import numpy as np
import pytest

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.runs import response_seeds
from entrometer.runs.seeds import seeds_for


def test_every_response_has_its_own_seed():
    seeds = response_seeds(0, range(-50, 50), 20)
    assert seeds.size == np.unique(seeds).size == 2000
    assert seeds.min() >= 0


def test_prompt_keeps_its_seeds_in_any_company():
    alone = response_seeds(7, [5], 3)
    among = response_seeds(7, [9, 5, 1], 3)
    np.testing.assert_array_equal(among[3:6], alone)


def test_first_seeds_do_not_depend_on_the_number_of_responses():
    few, many = response_seeds(7, [5], 2), response_seeds(7, [5], 9)
    np.testing.assert_array_equal(many[:2], few)


def test_repeated_prompt_goes_on_counting():
    """A batch drawn with replacement must not hold the same response twice."""
    twice = response_seeds(7, [5, 8, 5], 2)
    np.testing.assert_array_equal(twice[[0, 1, 4, 5]], response_seeds(7, [5], 4))


def test_seed_changes_all():
    assert not np.isin(response_seeds(1, range(99)), response_seeds(2, range(99))).any()


@pytest.mark.parametrize(("seed", "responses"), [(-1, 1), (0, 0)])
def test_refuses_what_makes_no_seeds(seed, responses):
    with pytest.raises(InvalidValue, match="at least"):
        response_seeds(seed, [1], responses)


def test_given_seeds_must_fit():
    prompts = [[1], [2]]
    given = np.array([4, 5])
    np.testing.assert_array_equal(seeds_for(given, prompts, [0, 1], 1), given)
    for bad in (np.array([4]), np.array([4, -5])):
        with pytest.raises(ShapeMismatch, match="expected 2 seeds"):
            seeds_for(bad, prompts, [0, 1], 1)


@pytest.mark.parametrize(("prompts", "ids"), [([], []), ([[1]], [1, 2])])
def test_each_prompt_needs_its_id(prompts, ids):
    with pytest.raises(ShapeMismatch, match="give each prompt its id"):
        seeds_for(0, prompts, ids, 1)
