"""BAPO against token weights worked out by hand."""

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled
from tests.interventions.ratio_tables import alphas, plain_on_policy_only

# N is 3 at any lower bound; P is the upper bound up to 2.5.
FEW = ([2.5, 1.5, 1.5], [1.0, -1.0, -1.0])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("bapo", 2.5),  # P of 3 is never reached: the upper bound ends at 3.
        ("bapo:share=0.4", 0.0),  # P of 2 is, at the bound 2.
        ("bapo:share=0.45", 0.0),  # P of 2.4545, at the bound 2.5 less round-off.
        ("bapo:share=0.46", 2.5),
        ("bapo:upper_end=2.4", 0.0),
        ("bapo:upper_step=9", 2.5),
        ("bapo:share=0", 0.0),
    ],
)
def test_the_upper_bound_rises_until_the_signs_balance(text, first):
    assert alphas(text, *FEW) == pytest.approx([first, -1.5, -1.5], abs=1e-12)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        # P = 1 + 1 and N = 0.7 are balanced: the bound stays at 0.6.
        ("bapo", -0.7),
        ("bapo:lower_start=0.75", 0.0),
        # Never balanced: it ends at 0.9, or as far as it may.
        ("bapo:share=1", 0.0),
        ("bapo:share=1,lower_end=0.65", -0.7),
        # The share is 2 of 2.7.
        ("bapo:share=0.74", -0.7),
        ("bapo:share=0.75", 0.0),
    ],
)
def test_the_lower_bound_rises_first(text, last):
    own = alphas(text, [1.0, 1.0, 0.7], [1.0, 1.0, -1.0])
    assert own == pytest.approx([1.0, 1.0, last], abs=1e-12)


def test_the_sums_are_over_the_counted_tokens_of_the_batch():
    # Counted: P = 1.2 up to 2.5 and N = 0.5; with the others it would be 1.2 and 20.5.
    tables = hand(
        p=[[0.5, 0.2], [0.5, 0.2]],
        r=[[2.5, 1.0], [1.0, 1.0]],
        A=[[1.0, 1.0], [-0.5, -20.0]],
        mask=[[True, False], [True, False]],
    )
    found = intervention("bapo").coefficients(tables)
    same(found.alpha, scaled([[0.0, 0.0], [-0.5, 0.0]]))
    same(found.gamma, scaled([[0.0, 0.0], [0.0, 0.0]]))


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("bapo")
