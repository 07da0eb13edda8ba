from itertools import permutations

import numpy as np
import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.estimators import PromptSums


def part(prompt, weight=1.0, **columns):
    values = {name: np.array(x, float) for name, x in columns.items()}
    return PromptSums.of(np.array(prompt), largest_weight=weight, **values)


def test_responses_of_a_prompt_add_up_and_ids_come_out_ascending():
    sums = part([7, 3, 7, -1], a=[1, 2, 4, 8], b=[0, 1, 0, 1])
    assert sums.prompt.tolist() == [-1, 3, 7]
    assert sums.of_prompts("a").tolist() == [8, 2, 5]
    assert sums.of_prompts("b").tolist() == [1, 1, 0]
    assert sums.total("a") == 15
    assert sums.prompts == 3


def test_parts_merge_in_any_order_even_with_a_prompt_split_over_them():
    parts = [
        part([1, 2], a=[1, 2]),
        part([2], 5.0, a=[4]),
        part([0, 1, 2, 3], a=[8, 16, 32, 64]),
        part([3], 2.0, a=[128]),
    ]
    for order in permutations(parts):
        merged = PromptSums.merge(iter(order))
        assert merged.prompt.tolist() == [0, 1, 2, 3]
        assert merged.of_prompts("a").tolist() == [8, 17, 38, 192]
        assert merged.largest_weight == 5.0


def test_one_part_merges_to_itself():
    one = part([1], a=[1])
    assert PromptSums.merge([one]) is one


def test_parts_with_other_columns_do_not_merge():
    with pytest.raises(InvalidValue, match="made by the same function"):
        PromptSums.merge([part([1], a=[1]), part([2], b=[1])])


def test_nothing_to_merge_is_refused():
    with pytest.raises(InvalidValue, match="at least one part"):
        PromptSums.merge([])


def test_a_missing_column_names_the_nearest():
    sums = part([1], responses=[1], dN=[1])
    with pytest.raises(MissingKey, match="got 'response'; Did you mean 'responses'"):
        sums.total("response")


def test_whole_numbers_are_summed_as_floats():
    sums = PromptSums.of(np.array([0, 0]), T=np.array([3, 4]))
    assert sums.sums.dtype == np.float64
    assert sums.total("T") == 7.0
