import math

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table


def test_it_is_an_entropy_bonus():
    tables = hand(p=[[0.5, 0.2]], A=[[0.5]], H=[[0.1, 0.3]], r=[[1.0, 1.1]])
    found = intervention("governor:alpha=0.02").coefficients(tables)
    same(found.alpha, scaled([[0.5, 0.55]]))
    # Two tokens share 0.02.
    same(found.gamma, table([[0.01, 0.01]]))


def test_the_first_step_begins_the_averages():
    after = dict(intervention("governor:target=0.4").adapted(0.5).settings)
    e = math.log(0.4 / 0.5)
    assert after["fast"] == after["slow"] == 0.5
    assert after["base"] == pytest.approx(0.04 * math.exp(0.2 * e))
    assert after["alpha"] == pytest.approx(after["base"] * math.exp(3 * e))


def test_a_falling_entropy_counts_as_lower_than_it_is():
    text = "governor:target=0.4,fast=0.5,slow=0.54,lead=2,base=0.05"
    after = dict(intervention(text).adapted(0.46).settings)
    # Averages of .48 and .524, three steps apart: .48 - 2 x .044 / 3.
    assert (after["fast"], after["slow"]) == pytest.approx((0.48, 0.524))
    e = math.log(0.4 / (0.48 - 2 * 0.044 / 3))
    assert after["base"] == pytest.approx(0.05 * math.exp(0.2 * e))
    assert after["alpha"] == pytest.approx(after["base"] * math.exp(3 * e))


@pytest.mark.parametrize("lag", [3, 17])
def test_averages_of_a_straight_course_are_three_steps_apart(lag):
    chosen = intervention("governor")
    for step in range(80):
        chosen = chosen.adapted(5 + 0.01 * lag * step)
    after = dict(chosen.settings)
    assert (after["fast"] - after["slow"]) / 3 == pytest.approx(0.01 * lag)


@pytest.mark.parametrize(
    ("text", "entropy", "alpha"),
    [
        # Limited to a factor of e^0.7, below the target and above it.
        ("governor", 0.01, 0.04 * math.exp(0.7 * 3)),
        ("governor", 3.0, 0.04 * math.exp(-0.7 * 3)),
        # Falling to below 0 in three steps.
        ("governor:fast=0.3,slow=0.9", 0.3, 0.04 * math.exp(0.7 * 3)),
        ("governor:base=0.9", 0.01, 1.0),
        ("governor:base=0.001", 3.0, 0.001 * math.exp(-0.7 * 3)),
        # Entropy rises by 0.04 per step, more than a tenth of the target.
        ("governor:fast=0.22,slow=0.0625", 0.22, 0.0),
    ],
)
def test_the_strength_is_bounded(text, entropy, alpha):
    after = dict(intervention(text).adapted(entropy).settings)
    assert after["alpha"] == pytest.approx(alpha)


def test_a_target_with_a_schedule_falls():
    chosen = intervention("governor:target=0.4,decay=0.5")
    for target in (0.2, 0.1):
        chosen = chosen.adapted(0.3)
        assert dict(chosen.settings)["target"] == pytest.approx(target)


def test_its_state_is_in_its_text():
    chosen = intervention("governor").adapted(0.5).adapted(0.45)
    assert intervention(chosen.text) == chosen
    assert intervention(str(chosen)) == chosen


def test_it_holds_a_policy_whose_entropy_drains_and_answers_late():
    """A drain of 4% per step, and a bonus that acts through momentum of 0.9."""
    h, pushed, chosen = 0.9, 0.0, intervention("governor:target=0.3")
    course = []
    for _ in range(150):
        alpha = dict(chosen.settings)["alpha"]
        pushed += 0.1 * (alpha - pushed)
        h += h * (0.5 * pushed - 0.04)
        chosen = chosen.adapted(h)
        course.append(h)
    assert min(course[60:]) > 0.27
    assert max(course[60:]) < 0.33
