"""Rows of an evaluation, against numbers worked by hand."""

import math

import numpy as np
import pytest

from entrometer.estimators import PromptSums, Tables
from entrometer.experiments.evaluation import collect as module
from entrometer.experiments.evaluation.collect import Graded, collect, statistics
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.evaluation.plan import CheckpointPlan
from entrometer.runs import Rollouts, Sampler

T_2 = 4.302652729749464
"""Student's two-sided 95% quantile on 2 degrees of freedom."""


def checkpoint(rewards, formats, lengths, entropies, truncated) -> PromptSums:
    """Statistics of three problems with two responses each, H alike in a response."""
    length = np.array(lengths)
    H = np.repeat(np.array(entropies, float), length)
    graded = Graded(
        rollouts=Rollouts(
            prompt=np.repeat(np.arange(3), 2),
            prompt_tokens=(np.ones(1, np.int64),) * 6,
            response_tokens=tuple(np.ones(n, np.int64) for n in length),
            seed=np.arange(6),
            text=("",) * 6,
            reward=np.array(rewards, float),
            sampler=Sampler(
                name="transformers",
                temperature=1.0,
                max_tokens=3,
                model="m",
                version="5",
            ),
        ),
        grades={
            "answer": np.array(rewards, float),
            "format": np.array(formats, float),
            "truncated": np.array(truncated, float),
        },
        tables=Tables(S=-H, H=H),
    )
    return statistics(graded)


FIRST = checkpoint(
    rewards=[1, 1, 1, 0, 0, 0.5],
    formats=[1, 1, 1, 1, 1, 1],
    lengths=[1, 2, 2, 2, 3, 2],
    entropies=[1, 1, 2, 1, 1, 1],
    truncated=[0, 0, 0, 0, 1, 0],
)
LATER = checkpoint(
    rewards=[1, 1, 1, 1, 1, 0],
    formats=[1, 1, 1, 1, 1, 1],
    lengths=[1, 1, 1, 1, 1, 1],
    entropies=[0.5, 0.5, 0.25, 0.75, 0, 1],
    truncated=[0, 0, 0, 0, 0, 0],
)


def point(steps, sums):
    """A plan of which only the name and the step are read."""
    made = object.__new__(CheckpointPlan)
    made.__dict__.update(name=f"checkpoint-{steps}", steps=steps, sums=sums)
    return made


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """Rows by quantity, one mapping per checkpoint."""
    monkeypatch.setattr(module, "read_graded", lambda plan, store: plan)
    monkeypatch.setattr(module, "statistics", lambda plan: plan.sums)

    def rows(steps, ks):
        config = EvalConfig(checkpoints=("x",), responses=8, ks=ks)
        points = [point(step, sums) for step, sums in steps]
        results = collect(config, points, tmp_path).results
        return [{r.quantity: r for r in results if r.step == step} for step, _ in steps]

    return rows


@pytest.fixture
def first(rows):
    return rows([(0, FIRST), (8, LATER)], (1, 2))[0]


@pytest.fixture
def later(rows):
    return rows([(0, FIRST), (8, LATER)], (1, 2))[1]


def test_a_row_says_what_it_rests_on(first, later):
    assert (first["length"].step, later["length"].step) == (0, 8)
    assert first["length"].prompts == 3
    assert first["length"].responses == 6
    assert list(first) == [
        "pass_at_1",
        "pass_at_2",
        "format_rate",
        "truncated",
        "length",
        "entropy",
    ]


def test_pass_at_k_and_partial_credit_is_no_pass(first):
    """Right: 2, 1 and 0 of 2. pass@1 of the problems is 1, ½, 0 and pass@2 1, 1, 0."""
    one, two = first["pass_at_1"], first["pass_at_2"]
    assert one.value == 0.5
    assert one.value_se == pytest.approx(0.5 / math.sqrt(3), rel=1e-14)
    # Wilson's, with m = ¼ / (1/12) = 3 coins.
    reach = T_2 / 2 / math.sqrt(3 + T_2**2)
    assert (one.value_low, one.value_high) == pytest.approx(
        (0.5 - reach, 0.5 + reach), rel=1e-12
    )
    assert two.value == pytest.approx(2 / 3, rel=1e-15)
    assert two.value_se == pytest.approx(1 / 3, rel=1e-14)


def test_length_is_a_mean_over_responses(first):
    """3, 4 and 5 tokens: 2 a response; pulls -1/6, 0, 1/6."""
    length = first["length"]
    error = math.sqrt(3 / 2 * 2 / 36)
    assert length.value == 2
    assert length.value_se == pytest.approx(error, rel=1e-14)
    assert length.value_low == pytest.approx(2 - T_2 * error, rel=1e-12)
    assert length.value_high == pytest.approx(2 + T_2 * error, rel=1e-12)


def test_entropy_is_a_ratio_of_sums(first):
    """3, 6 and 5 nats on 3, 4 and 5 tokens: 7/6, with the pulls of a ratio."""
    found = first["entropy"]
    pulls = [(H - 7 / 6 * T) / 12 for H, T in ((3, 3), (6, 4), (5, 5))]
    error = math.sqrt(3 / 2 * sum(x * x for x in pulls))
    assert found.value == pytest.approx(7 / 6, rel=1e-15)
    assert found.value_se == pytest.approx(error, rel=1e-13)


def test_shares_of_responses(first):
    """One of six truncated, 0, 0 and ½ by problem; all well formed."""
    truncated, formed = first["truncated"], first["format_rate"]
    assert truncated.value == pytest.approx(1 / 6, rel=1e-15)
    assert truncated.value_se == pytest.approx(1 / 6, rel=1e-14)
    assert formed.value == 1
    assert math.isnan(formed.value_se)
    assert formed.value_low == pytest.approx(1 - T_2**2 / (2 + T_2**2), rel=1e-10)
    assert formed.value_high == 1


def test_a_change_is_paired_by_problem(first, later):
    """0, ½ and ½ more: a third, to a sixth; unpaired it would be to a third."""
    change = later["pass_at_1"]
    assert change.change == pytest.approx(1 / 3, rel=1e-15)
    assert change.change_se == pytest.approx(1 / 6, rel=1e-14)
    assert change.change_low == pytest.approx(1 / 3 - T_2 / 6, rel=1e-12)
    assert change.change_high == pytest.approx(1 / 3 + T_2 / 6, rel=1e-12)
    errors = [r["pass_at_1"].value_se for r in (first, later)]
    assert math.hypot(*errors) == pytest.approx(1 / 3, rel=1e-14)


def test_the_first_has_no_change(first):
    assert all(math.isnan(row.change) for row in first.values())


def test_a_change_alike_in_every_problem_has_no_error(later):
    """The format did not change at all, and three problems do not prove that."""
    change = later["format_rate"]
    assert change.change == 0
    assert all(
        map(math.isnan, (change.change_se, change.change_low, change.change_high))
    )


def test_changes_that_round_to_the_same_are_alike(rows):
    """A third more in every problem, whatever the last digit says."""

    def sums(correct):
        values = np.array([[3.0, c, 3.0, 1.0, 3.0, 3.0] for c in correct])
        columns = ("responses", "correct", "format", "truncated", "T", "H")
        return PromptSums(columns, np.arange(4), values)

    later = rows([(0, sums([0, 1, 2, 1])), (1, sums([1, 2, 3, 2]))], (1,))[1]
    assert later["pass_at_1"].change == pytest.approx(1 / 3, rel=1e-14)
    assert math.isnan(later["pass_at_1"].change_se)
