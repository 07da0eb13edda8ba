import math
from itertools import pairwise

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
    after = dict(intervention("governor:target=0.4").adapted(0.38).settings)
    e = math.log(0.4 / 0.38)
    assert (after["fast"], after["slow"]) == pytest.approx((0.38, 0.38))
    assert after["base"] == pytest.approx(0.04 * math.exp(0.2 * e))
    assert after["alpha"] == pytest.approx(after["base"] * math.exp(4 * e))


def test_a_falling_entropy_counts_as_lower_than_it_is():
    text = "governor:alpha=0.1,target=0.4,fast=0.5,slow=0.54,lead=2,base=0.05"
    after = dict(intervention(text).adapted(0.45).settings)
    # Averages of .46 and .513, 25/12 steps apart: .46 - 2 x .053 x 12 / 25.
    assert (after["fast"], after["slow"]) == pytest.approx((0.46, 0.513))
    e = math.log(0.4 / (0.46 - 2 * 0.053 * 12 / 25))
    assert e < 0
    assert after["base"] == pytest.approx(0.05 * math.exp(0.2 * e))
    assert after["alpha"] == pytest.approx(after["base"] * (2 - math.exp(-4 * e)))


@pytest.mark.parametrize("lag", [3, 17])
def test_how_far_apart_averages_of_a_straight_course_are(lag):
    chosen = intervention("governor")
    for step in range(80):
        chosen = chosen.adapted(5 + 0.01 * lag * step)
    after = dict(chosen.settings)
    assert (after["fast"] - after["slow"]) * 12 / 25 == pytest.approx(0.01 * lag)


@pytest.mark.parametrize(
    ("text", "entropy", "alpha"),
    [
        # Limited to a factor of e^1.2, below the target.
        ("governor:alpha=0.4,base=0.003", 0.01, 0.003 * math.exp(1.2 * 4)),
        # Falling to below 0 in five steps.
        (
            "governor:alpha=0.4,base=0.003,fast=0.3,slow=0.9",
            0.3,
            0.003 * math.exp(1.2 * 4),
        ),
        ("governor:alpha=0.4", 0.01, 0.5),
        # By a factor of 2 per step, from the last strength or from the base.
        ("governor:alpha=0.1", 0.01, 0.2),
        ("governor:alpha=-0.01", 0.01, 0.08),
        # Above the target by a factor of 2, and of 10.
        ("governor:base=0.001", 0.6, -0.001),
        ("governor", 3.0, 0.0),
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


@pytest.mark.parametrize("target", [0.15, 0.3, 0.5])
def test_it_holds_a_policy_whose_entropy_drains_and_answers_late(target):
    """A drain and a bonus that act through momentum of 0.9, and a bonus that saturates.

    9% per step without a bonus, up to 16% under one, as on the workbench.
    """
    h, pushed, drained, course = 0.93, 0.0, 0.0, []
    chosen = intervention(f"governor:target={target}")
    for step in range(1, 151):
        alpha = dict(chosen.settings)["alpha"]
        share = alpha / (alpha + 0.14 * h / 0.3)
        pushed += 0.1 * (share - pushed)
        drained += 0.1 * (1 - share - drained)
        rate = 0.16 * pushed * h / 0.3 - 0.09 * drained * max(0, 1 - 0.1 / h)
        h *= 1 + rate / (1 - 0.9**step)
        chosen = chosen.adapted(h)
        course.append(h)
    assert min(course) > 0.85 * target
    assert course[80:] == pytest.approx([target] * 70, rel=0.05)
    # Never thrown back up on the way down.
    assert all(later < 1.03 * h for h, later in pairwise(course))
