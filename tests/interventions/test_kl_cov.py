"""KL-Cov against selections and token weights worked out by hand."""

from dataclasses import replace

import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.ratio_tables import (
    alphas,
    plain_on_policy_only,
    random_tables,
    tokens,
)

# The means are 0 and −2, so that c = [1, 0, −1, 1.5, −4.5].
A = [1.0, 2.0, 1.0, -1.0, -3.0]
S = [-1.0, -2.0, -3.0, -3.5, -0.5]


def test_the_top_of_the_covariance_is_held():
    ratios = [2.0, 0.5, 3.0, 0.5, 1.5]
    free = [2.0, 1.0, 3.0, -0.5, -4.5]
    assert alphas("kl-cov:beta=0", ratios, A, S) == pytest.approx(free, abs=1e-12)
    # ⌊0.39 · 5⌋ = 1: the fourth, which is less likely than it was, is pulled back up.
    one = [2.0, 1.0, 3.0, -0.5 + 0.7, -4.5]
    text = "kl-cov:rho=0.39,beta=0.7"
    assert alphas(text, ratios, A, S) == pytest.approx(one, abs=1e-12)
    # ⌊0.41 · 5⌋ = 2: the first too, which is likelier than it was.
    two = [2.0 - 0.7, 1.0, 3.0, -0.5 + 0.7, -4.5]
    text = "kl-cov:rho=0.41,beta=0.7"
    assert alphas(text, ratios, A, S) == pytest.approx(two, abs=1e-12)


def test_one_token_is_held_however_small_the_share():
    assert alphas("kl-cov", [1.0] * 3 + [0.5, 1.0], A, S) == pytest.approx(
        [1.0, 2.0, 1.0, -0.5 + 1.0, -3.0], abs=1e-12
    )


def test_there_is_no_clip():
    assert alphas("kl-cov:beta=0", [0.01, 50.0], [-1, 1]) == pytest.approx(
        [-0.01, 50.0]
    )


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("kl-cov:rho=0.3")


def test_the_smallest_step_away_brings_the_whole_penalty():
    r = 1 + 1e-9
    assert alphas("kl-cov:rho=1", [r, 1 / r], [1.0, -1.0]) == pytest.approx(
        [0.0, 0.0], abs=1e-8
    )


def test_statistics_are_over_the_counted_tokens():
    tables = tokens([2.0, 0.5, 3.0, 0.5, 1.5, 2.0], [*A, 99.0], [*S, -99.0])
    mask = tables.mask.clone()
    mask[0, 5] = False
    alpha = intervention("kl-cov:rho=0.39").coefficients(replace(tables, mask=mask))[0]
    expected = [2.0, 1.0, 3.0, 0.5, -4.5, 0.0]
    assert alpha[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_micro_batches_hold_one_token_each():
    tables = random_tables(rows=8)
    free = intervention("kl-cov:beta=0").token_losses(tables)
    for text, count in [("kl-cov", 1), ("kl-cov:micro_batch=2", 4)]:
        held = intervention(text).token_losses(tables) != free
        assert int((held & tables.mask).sum()) == count
    assert torch.equal(held.any(dim=1).reshape(4, 2).sum(dim=1), torch.ones(4).long())
