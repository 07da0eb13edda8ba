import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import noise_scale_moments
from entrometer.estimators.kernel import gradient_noise, prompt_products


def gradients(prompts, seed, signal=0.5, width=20):
    return np.random.default_rng(seed).normal(signal, 1.0, size=(prompts, width))


def test_products_of_prompts_are_those_of_their_summed_gradients():
    rng = np.random.default_rng(0)
    rows, alpha = rng.normal(size=(9, 5)), rng.normal(size=9)
    prompt = np.array([4, 1, 1, 4, 2, 2, 2, 4, 1])
    g = np.stack([(alpha[:, None] * rows)[prompt == p].sum(0) for p in (1, 2, 4)])
    found = prompt_products(rows @ rows.T, alpha, prompt)
    assert np.allclose(found, g @ g.T, rtol=1e-13, atol=1e-13)


def test_it_is_the_noise_scale_of_one_step_with_parts_of_one_prompt():
    g = gradients(8, 0)
    small = np.array([(g**2).sum(1).mean()])
    large = np.array([(g.mean(0) ** 2).sum()])
    trace, G2 = noise_scale_moments(small, large, b=1, B=8)
    assert gradient_noise(g @ g.T).value == pytest.approx((trace / G2)[0], rel=1e-12)


def test_the_standard_error_is_that_of_leaving_prompts_out():
    """To first order: the ratio's own jackknife, on many prompts."""
    g = gradients(200, 1)
    whole = gradient_noise(g @ g.T)
    without = np.array(
        [
            gradient_noise(h @ h.T).value
            for h in (np.delete(g, p, axis=0) for p in range(200))
        ]
    )
    error = np.sqrt(199 / 200 * ((without - whole.value) ** 2).sum())
    assert whole.standard_error == pytest.approx(error, rel=0.01)


def test_intervals_cover():
    truth = 20 / (20 * 0.5**2)
    found = (gradient_noise(g @ g.T) for g in (gradients(24, s) for s in range(400)))
    assert 0.92 <= np.mean([e.covers(truth) for e in found]) <= 0.985


def test_a_gradient_that_is_not_told_from_noise_has_no_scale():
    g = np.eye(4)
    found = gradient_noise(g @ g.T)
    assert np.isnan(found.value)
    assert (found.low, found.high) == (0.0, np.inf)


def test_two_prompts_are_too_few():
    with pytest.raises(InvalidValue, match="at least 3 prompts, got 2"):
        gradient_noise(np.eye(2))
