"""A finite change of a mixture says when it is no small one."""

import pytest

from entrometer.experiments.requests.passes import warn_of_changed_choices
from tests.policy.small_models import direction, random_rollouts, small_policy


def said(name, eta, caplog):
    policy = small_policy(name, lora=False)
    warn_of_changed_choices(policy, random_rollouts(), direction(policy), eta)
    return caplog.text


def test_choices_that_a_step_changes_are_said(caplog):
    text = said("qwen3_moe", 3.0, caplog)
    assert "a step of 3 changes" in text
    assert "of the choices of experts (of 4 responses)" in text


@pytest.mark.parametrize(("name", "eta"), [("qwen3_moe", 1e-7), ("llama", 3.0)])
def test_nothing_is_said_where_none_changes(caplog, name, eta):
    assert not said(name, eta, caplog)
