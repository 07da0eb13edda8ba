"""Losses that correct for the engine that sampled, by hand: TIS, IcePop and MIS."""

import pytest

from entrometer.errors import MissingKey
from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table

# Products over the counted tokens: 1.65, 0.16, 6.
M = [[3.0, 0.55, 99.0], [0.4, 0.4, 1.0], [6.0, 99.0, 99.0]]
MASK = [[True, True, False], [True] * 3, [True, False, False]]
A = [[0.5], [-0.5], [0.25]]


def tables_of(r=1.0):
    own = hand(p=[[0.5, 0.2, 0.1]] * 3, A=A, r=r, mask=MASK)
    return hand(
        p=[[0.5, 0.2, 0.1]] * 3,
        A=A,
        r=r,
        mask=MASK,
        S_engine=own.S_old - table(M).log(),
    )


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("tis", [[2.0, 0.55, 0], [0.4, 0.4, 1.0], [2.0, 0, 0]]),
        ("tis:cap=5", [[3.0, 0.55, 0], [0.4, 0.4, 1.0], [5.0, 0, 0]]),
        ("icepop", [[3.0, 0.55, 0], [0, 0, 1.0], [0, 0, 0]]),
        ("icepop:least=0.3,most=7", [[3.0, 0.55, 0], [0.4, 0.4, 1.0], [6.0, 0, 0]]),
        ("icepop:most=2", [[0, 0.55, 0], [0, 0, 1.0], [0, 0, 0]]),
        ("mis", [[1.65, 1.65, 0], [0.16] * 3, [0, 0, 0]]),
        ("mis:least=0.2,most=7", [[1.65, 1.65, 0], [0, 0, 0], [6.0, 0, 0]]),
    ],
)
def test_plain_weights_times_those_of_the_mismatch(text, weights, r):
    found = intervention(text).coefficients(tables_of(r))
    alpha = [[a[0] * r * w for w in row] for a, row in zip(A, weights, strict=True)]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 3))


def test_the_clip_is_plain():
    found = intervention("tis").coefficients(tables_of(1.3))
    same(found.alpha, scaled([[0.0] * 3, [-0.26, -0.26, -0.65], [0.0] * 3]))


def test_dppo_against_the_engine_has_the_ratio_to_it_and_its_probability():
    """p is 0.5, 0.2, 0.1; m says how much likelier the trainer has it."""
    found = intervention("dppo-engine:high=0.3,low=0.3").coefficients(tables_of())
    # In the first row the engine's 0.17 to 0.5 is too far up; in the second its 1.25
    # to 0.5 is too far down.
    alpha = [[0.0, 0.5 * 0.55, 0.0], [0.0, -0.5 * 0.4, -0.5], [0.0, 0.0, 0.0]]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 3))


@pytest.mark.parametrize("name", ["tis", "icepop", "mis", "dppo-engine"])
def test_the_log_probs_of_the_engine_are_needed(name):
    with pytest.raises(MissingKey, match=f"the table 'S_engine', .* '{name}' reads"):
        intervention(name).loss(hand(p=[[0.5]], A=[[0.5]]))
