import numpy as np
import pytest

from entrometer.estimators.kernel import block_mask, growth_with_length

RNG = np.random.default_rng(0)
PROMPT = np.repeat(np.arange(6), 4)
LENGTH = RNG.integers(3, 60, size=24)
ROOT = np.sqrt(np.outer(LENGTH, LENGTH))


@pytest.mark.parametrize("block", ["self", "prompt", "other"])
@pytest.mark.parametrize("power", [1.0, -0.5, 2.0])
def test_a_power_of_the_length_is_found(block, power):
    sign = np.where(RNG.normal(size=(24, 24)) > 0, 1, -1)
    found = growth_with_length(3.0 * sign * ROOT**power, LENGTH, PROMPT, block)
    assert found.power.value == pytest.approx(power, abs=1e-12)
    assert found.power.standard_error < 1e-12
    assert found.pairs == {"self": 24, "prompt": 36, "other": 240}[block]


@pytest.mark.parametrize("block", ["self", "other"])
def test_slope_and_error_are_those_of_fits_without_each_prompt(block):
    noise = RNG.normal(size=(24, 24))
    K = ROOT * np.exp(noise + noise.T)

    def slope(keep):
        told = block_mask(PROMPT, block) & keep[:, None] & keep[None, :]
        return np.polyfit(np.log(ROOT[told]), np.log(K[told]), 1)[0]

    found = growth_with_length(K, LENGTH, PROMPT, block).power
    whole = slope(np.ones(24, bool))
    without = np.array([slope(p != PROMPT) for p in range(6)])
    assert found.value == pytest.approx(whole, rel=1e-10)
    error = np.sqrt(5 / 6 * ((without - whole) ** 2).sum())
    assert found.standard_error == pytest.approx(error, rel=1e-10)


def test_equal_lengths_tell_no_power():
    found = growth_with_length(ROOT, np.full(24, 7), PROMPT, "self").power
    assert np.isnan([found.value, found.standard_error]).all()


def test_elements_that_vanish_are_left_out():
    K = ROOT.copy()
    K[0, 0] = 0.0
    found = growth_with_length(K, LENGTH, PROMPT, "self")
    assert found.pairs == 23
    assert found.power.value == pytest.approx(1.0, abs=1e-12)
