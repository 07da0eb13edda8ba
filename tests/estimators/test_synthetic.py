import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import PromptSums, scatter, synthetic_batches

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
