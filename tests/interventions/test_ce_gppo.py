"""CE-GPPO against token weights worked out by hand."""

import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.ratio_tables import alphas, plain_on_policy_only, random_tables


def test_tokens_that_are_clipped_above_keep_a_pull_that_does_not_grow():
    ratios = [0.1, 1.0, 1.19, 1.21, 5.0]
    assert alphas("ce-gppo", ratios, [2.0] * 5) == pytest.approx(
        [0.2, 2.0, 2.38, 2.4, 2.4], abs=1e-12
    )
    assert alphas("ce-gppo:beta2=0.25", ratios, [2.0] * 5) == pytest.approx(
        [0.2, 2.0, 2.38, 0.6, 0.6], abs=1e-12
    )


def test_tokens_that_are_clipped_below_keep_a_share():
    ratios = [0.1, 0.79, 0.81, 1.0, 3.0]
    assert alphas("ce-gppo", ratios, [-1.0] * 5) == pytest.approx(
        [-0.4, -0.4, -0.81, -1.0, -3.0], abs=1e-12
    )
    assert alphas("ce-gppo:beta1=0.75", ratios, [-1.0] * 5) == pytest.approx(
        [-0.6, -0.6, -0.81, -1.0, -3.0], abs=1e-12
    )


def test_each_side_has_its_own_room():
    assert alphas("ce-gppo:low=0.5,high=1", [0.6, 0.4, 1.9, 2.1], [-1, -1, 1, 1]) == (
        pytest.approx([-0.6, -0.25, 1.9, 2.0], abs=1e-12)
    )


def test_without_the_shares_it_is_plain():
    tables = random_tables()
    none = intervention("ce-gppo:beta1=0,beta2=0").coefficients(tables)
    plain = intervention("dr-grpo").coefficients(tables)
    assert torch.allclose(none.alpha, plain.alpha, rtol=0, atol=1e-15)


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("ce-gppo")
