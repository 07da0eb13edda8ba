"""GMPO against token weights worked out by hand."""

import math

import torch

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table
from tests.interventions.ratio_tables import plain_on_policy_only, random_tables


def test_clipped_tokens_count_in_the_mean_at_the_clip():
    log_r = table([[0.5, 0.1, 9], [-0.6, 0.7, 9], [-0.9, 0.2, 0.1]])
    mask = [[True, True, False], [True, True, False], [True] * 3]
    A = [[0.5], [-0.5], [0.25]]
    tables = hand(p=[[0.5, 0.2, 0.1]] * 3, r=log_r.exp().tolist(), A=A, mask=mask)
    found = intervention("gmpo").coefficients(tables)
    # Means: (0.4 + 0.1)/2, (-0.4 + 0.7)/2, (-0.9 + 0.2 + 0.1)/3.
    rho = [math.exp(0.25), math.exp(0.15), math.exp(-0.2)]
    alpha = [[0, 0.5 * rho[0], 0], [0, -0.5 * rho[1], 0], [0.25 * rho[2]] * 3]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 3))


def test_it_is_the_derivative_of_the_published_form():
    tables = random_tables(4)
    mask, A = tables.mask, tables.A[:, 0]
    S = tables.S.where(mask, 0.0).requires_grad_()
    log_r = (S - tables.S_old.where(mask, 0.0)).where(mask, 0.0)
    above = log_r.clamp(max=0.3)
    below = log_r.clamp(min=-0.2)
    bounded = torch.where(A[:, None] > 0, above, below)
    T = mask.sum(dim=1)
    rho = (bounded.sum(dim=1) / T).exp()
    gain = (T * A * rho).sum() / (len(A) * tables.length_limit)
    (expected,) = torch.autograd.grad(gain, S)
    found = intervention("gmpo:low=0.2,high=0.3").coefficients(tables)
    same(found.alpha, expected)


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("gmpo")
