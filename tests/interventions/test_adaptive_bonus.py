import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table


def two(H):
    return hand(p=[[0.5, 0.2]], A=[[0.5]], H=H, r=[[1.0, 1.1]])


@pytest.mark.parametrize(
    ("H", "gamma"),
    [([[0.1, 0.3]], 0.005), ([[0.1, 0.29]], 0.005), ([[0.1, 0.31]], 0.0)],
)
def test_the_bonus_is_paid_up_to_the_target(H, gamma):
    # Mean H is 0.2, 0.195, 0.205; the target 0.2; two tokens share 0.01.
    found = intervention("adaptive-bonus").coefficients(two(H))
    same(found.alpha, scaled([[0.5, 0.55]]))
    same(found.gamma, table([[gamma, gamma]]))


@pytest.mark.parametrize(
    ("text", "entropy", "alpha"),
    [
        ("adaptive-bonus", 0.1, 0.015),
        ("adaptive-bonus", 0.2, 0.015),
        ("adaptive-bonus", 0.3, 0.005),
        ("adaptive-bonus:alpha=0.004", 0.3, 0.0),
        ("adaptive-bonus:alpha=0.999", 0.1, 1.0),
        ("adaptive-bonus:delta=0.5,target=0.4", 0.3, 0.51),
        ("adaptive-bonus:largest=0.012", 0.1, 0.012),
    ],
)
def test_the_next_step_has_more_of_it_below_the_target_and_less_above(
    text, entropy, alpha
):
    before = intervention(text)
    after = before.adapted(entropy)
    assert dict(after.settings) == dict(before.settings) | {
        "alpha": pytest.approx(alpha, abs=1e-15)
    }
    assert intervention(str(after)) == after
