import pytest

from tests.interventions.hand import same, scaled
from tests.interventions.test_qae import alphas, tables_of

# Rewards 1, 0, 0; 1, 1, 0; 0.9, 0.5, 0.1; and a group of one.
A = [
    [2 / 3],
    [-1 / 3],
    [-1 / 3],
    [1 / 3],
    [1 / 3],
    [-2 / 3],
    [0.4],
    [0.0],
    [-0.4],
    [0.3],
]
GROUP = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
BEST = [1.0, 0, 0, 0, 0, 0, 0.4, 0, 0, 0]


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_only_the_best_of_a_group_counts_by_its_lead(r):
    found = alphas("pass-at-k", tables_of(A=A, group=GROUP, r=r))
    same(found, scaled([[r * x, 0.0] for x in BEST]))


def test_groups_need_not_be_in_order():
    order = [5, 9, 0, 7, 3, 2, 8, 1, 6, 4]
    tables = tables_of(A=[A[k] for k in order], group=[GROUP[k] for k in order])
    same(alphas("pass-at-k", tables), scaled([[BEST[k], 0.0] for k in order]))


def test_a_response_without_tokens_is_not_of_its_group():
    mask = [[True, False]] * 7 + [[False, False]] + [[True, False]] * 2
    found = alphas("pass-at-k", tables_of(A=A, group=GROUP, mask=mask))
    same(found, scaled([[x, 0.0] for x in [1.0, 0, 0, 0, 0, 0, 0.8, 0, 0, 0]]))


def test_the_clip_is_plain():
    found = alphas("pass-at-k", tables_of(A=A, group=GROUP, r=1.3))
    same(found, scaled([[0.0, 0.0]] * len(A)))
