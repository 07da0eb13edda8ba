from itertools import permutations

import numpy as np
import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.estimators import PromptSums, scatter, synthetic_batches


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


RNG = np.random.default_rng(0)
PROMPT = np.arange(50)
SUMS = PromptSums.of(
    PROMPT, H=RNG.gamma(2.0, size=50), T=RNG.integers(1, 9, size=50).astype(float)
)
OTHER = PromptSums.of(PROMPT, x=RNG.standard_normal(50))


def mean(sums):
    return sums.total("H") / sums.prompts


def test_the_scatter_of_a_mean_is_its_standard_error():
    drawn = scatter([SUMS], mean, size=40, batches=4000, seed=1)
    x = SUMS.of_prompts("H")
    assert drawn.mean() == pytest.approx(
        x.mean(), abs=4 * x.std() / 40**0.5 / 4000**0.5
    )
    assert drawn.std() == pytest.approx(x.std() / 40**0.5, rel=0.05)


def test_all_parts_have_the_same_prompts():
    together = PromptSums.of(PROMPT, H=SUMS.of_prompts("H"), x=SUMS.of_prompts("H"))
    for a, b in synthetic_batches([SUMS, together], size=10, batches=5, seed=0):
        np.testing.assert_array_equal(a.of_prompts("H"), b.of_prompts("x"))


def test_the_seed_decides():
    draws = [scatter([SUMS], mean, size=8, batches=3, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).all()


def test_every_draw_is_a_prompt_of_its_own():
    ((batch,),) = synthetic_batches([SUMS], size=200, batches=1, seed=0)
    assert batch.prompts == 200


def test_other_prompts_are_refused():
    moved = PromptSums.of(PROMPT + 1, x=np.ones(50))
    with pytest.raises(InvalidValue, match="same prompts"):
        next(synthetic_batches([SUMS, moved], size=2, batches=1, seed=0))
