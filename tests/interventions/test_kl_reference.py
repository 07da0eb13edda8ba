import math

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table

D = [[0.3, -0.2, 99.0], [0.0, 1.5, -0.7]]
MASK = [[True, True, False], [True] * 3]
A = [[0.5], [-0.25]]
P = [[0.5, 0.2, 0.1]] * 2


def tables_of(r):
    return hand(p=P, A=A, r=r, mask=MASK, S_ref=table(P).log() - table(D))


SLOPES = {1: lambda d: 1.0, 2: lambda d: d, 3: lambda d: 1.0 - math.exp(-d)}


@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("r", [1.0, 0.9, 1.1, 1.3])
def test_the_penalty_is_pulled_beside_the_plain_weight(form, r):
    found = intervention(f"kl-reference:beta=0.1,form={form}").coefficients(
        tables_of(r)
    )
    alpha = [
        [
            # Right answers are clipped at 1.3; the penalty never is.
            ((a[0] * r if r < 1.2 or a[0] < 0 else 0.0) - 0.1 * SLOPES[form](d)) * m
            for d, m in zip(row, counted, strict=True)
        ]
        for a, row, counted in zip(A, D, MASK, strict=True)
    ]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 2))


@pytest.mark.parametrize(
    ("form", "expected"), [(1, 1.5), (2, 1.125), (3, math.exp(-1.5) + 0.5)]
)
def test_the_penalty_itself(form, expected):
    own = intervention(f"kl-reference:beta=2,form={form}")
    found = own.token_losses(tables_of(1.0)) - intervention("dr-grpo").token_losses(
        tables_of(1.0)
    )
    assert float(found[1, 1]) == pytest.approx(2 * expected, abs=1e-12)
    assert float(found[0, 2]) == 0.0


def test_the_default_is_that_of_grpo():
    assert dict(intervention("kl-reference").settings) == {
        "beta": 0.04,
        "form": 3,
        "low": 0.2,
        "high": 0.2,
    }


@pytest.mark.parametrize("form", [0, 4])
def test_there_are_three_forms(form):
    with pytest.raises(InvalidValue, match="expected a form of 1, 2 or 3"):
        intervention(f"kl-reference:form={form}").loss(tables_of(1.0))


def test_the_log_probs_of_the_reference_are_needed():
    with pytest.raises(MissingKey, match=r"the table 'S_ref', .* 'kl-reference' reads"):
        intervention("kl-reference").loss(hand(p=[[0.5]], A=[[0.5]]))
