"""GSPO against token weights worked out by hand."""

import math

import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table
from tests.interventions.ratio_tables import plain_on_policy_only, random_tables

MASK = [[True, True, False], [True] * 3, [True, False, False], [True, True, False]]


def test_all_tokens_of_a_response_have_its_geometric_mean():
    # Means of log r: 0.01 over two tokens, -0.03 over three, 0.05, 0.05.
    log_r = table([[0.03, -0.01, 9], [-0.06, 0, -0.03], [0.05, 9, 9], [0.3, -0.2, 9]])
    A = [[0.5], [-0.25], [-0.75], [0.5]]
    tables = hand(p=[[0.5, 0.2, 0.1]] * 4, r=log_r.exp().tolist(), A=A, mask=MASK)
    found = intervention("gspo:low=0.02,high=0.02").coefficients(tables)
    one, three = 0.5 * math.exp(0.01), -0.75 * math.exp(0.05)
    # The second is below 0.98 with A < 0, the last above 1.02 with A > 0: both clipped.
    alpha = [[one, one, 0], [0, 0, 0], [three, 0, 0], [0, 0, 0]]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 4))


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.2), (3e-4, 4e-4), (9.0, 9.0)])
def test_it_is_the_derivative_of_the_published_form(low, high):
    tables = random_tables(5)
    mask, A = tables.mask, tables.A[:, 0]
    S = tables.S.where(mask, 0.0).requires_grad_()
    T = mask.sum(dim=1)
    log_s = (S - tables.S_old.where(mask, 0.0)).where(mask, 0.0).sum(dim=1) / T
    s = log_s.exp()
    bounded = s.clamp(1.0 - low, 1.0 + high)
    # The published loss of a response is divided by T; ours is not.
    loss = -(T * torch.minimum(s * A, bounded * A)).sum()
    (expected,) = torch.autograd.grad(-loss / (len(A) * tables.length_limit), S)
    found = intervention(f"gspo:low={low},high={high}").coefficients(tables)
    same(found.alpha, expected)


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("gspo")
