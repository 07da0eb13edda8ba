"""Continuations of a tiny training, against steps that are taken one request each."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from entrometer.api.settings import trained_settings
from entrometer.engine import LocalEngine
from entrometer.engine.vectors import open_vectors
from entrometer.errors import InvalidValue
from entrometer.experiments.compare.requests import (
    InterventionInputs,
    InterventionLoss,
)
from entrometer.experiments.cost import Rate, excerpt
from entrometer.experiments.experiment import run_kinds
from entrometer.experiments.fork import FORK
from entrometer.experiments.fork.collect import Evaluations
from entrometer.experiments.fork.config import ForkConfig
from entrometer.experiments.fork.plan import follow_up, guess, plan
from entrometer.experiments.fork.requests import Continuation
from entrometer.experiments.fork.summary import summarize
from entrometer.experiments.requests import (
    Concentration,
    Draw,
    Forward,
    Minibatch,
    PolicyAfterStep,
    Step,
    UpdateTables,
)
from entrometer.experiments.run import requests_of, run_experiment, run_requests
from entrometer.interventions import intervention
from entrometer.policy.checkpoint import read_schedule
from entrometer.report import write_report
from tests.experiments.fork.conftest import BONUS

fork = partial(run_experiment, FORK)


def parameters(request, store) -> dict[str, torch.Tensor]:
    with open_vectors(request.path(store), "a policy", "cpu") as file:
        return {name: file[name] for name in file.names()}


def compute(requests, store) -> None:
    run_requests(requests, store, lambda _: None, LocalEngine())


@pytest.mark.parametrize("loss", ["dr-grpo", BONUS, "clip-cov:rho=0.2"])
def test_a_step_is_the_step_of_the_same_batch(config, loss, tmp_path):
    """Parameters and moments to the bit, with requests that every experiment uses."""
    config = replace(config, steps=1, halvings=0, interventions=(loss, "grpo"))
    (point,) = plan(config)
    rate = read_schedule(point.subject.path).learning_rate
    chosen = intervention(loss)
    (row, *_) = (r for r in point.evaluated if r.loss == chosen)
    (batch,) = row.continuation.draws
    # A continuation samples in the precision of its policy.
    batch = replace(batch, subject=point.subject)
    compute([batch], tmp_path)
    tables = UpdateTables(subject=point.subject, batch=batch)
    surplus = Concentration(subject=point.subject, batch=batch)
    extra = surplus if chosen.remedy.needs else None
    seen = InterventionInputs(here=tables, old=tables, concentration=extra)
    step = Step(
        subject=point.subject,
        batch=batch,
        max_grad_norm=config.max_grad_norm,
        loss=InterventionLoss(intervention=chosen.text, inputs=seen),
    )
    after = PolicyAfterStep(subject=point.subject, step=step, eta=rate)
    compute([*seen.requests(), after, row.continuation], tmp_path)
    here, there = (parameters(x, tmp_path) for x in (row.continuation, after))
    assert here.keys() == there.keys()
    for name, values in here.items():
        assert torch.equal(values, there[name]), name


def test_later_steps_of_a_window_have_ratios_to_the_policy_that_sampled(
    config, tmp_path
):
    """The second minibatch's step, after the first's, by requests of `compare`."""
    config = replace(
        config, steps=2, window=2, halvings=0, interventions=("clip-higher",)
    )
    (point,) = plan(config)
    rate = read_schedule(point.subject.path).learning_rate
    row = next(r for r in point.evaluated if r.loss.name == "clip-higher")
    batch = replace(row.continuation.draws[0], subject=point.subject)
    subject = point.subject
    requests = [batch]
    for part in (1, 2):
        mini = Minibatch(batch=batch, part=part, parts=2)
        old = UpdateTables(subject=point.subject, batch=mini)
        here = UpdateTables(subject=subject, batch=mini)
        loss = InterventionLoss(
            intervention=row.loss.text,
            inputs=InterventionInputs(here=here, old=old),
        )
        step = Step(
            subject=subject, batch=mini, max_grad_norm=config.max_grad_norm, loss=loss
        )
        after = PolicyAfterStep(subject=subject, step=step, eta=rate)
        requests += [old, here, after]
        subject = replace(point.subject, advanced=after)
    compute([*requests, row.continuation], tmp_path)
    here, there = (parameters(x, tmp_path) for x in (row.continuation, after))
    for name, values in here.items():
        assert torch.equal(values, there[name]), name


def test_a_continuation_in_two_parts_ends_where_one_in_one_part_does(config, tmp_path):
    """Also an adaptive loss, whose strength goes on from where it was."""
    whole = replace(config, halvings=0)
    (point,), (cut,) = plan(whole), plan(config)
    names = ("clip-cov", "adaptive-bonus")
    wanted = [r for r in point.evaluated if r.seed == 1 and r.loss.name in names]
    compute([r.continuation for r in wanted], tmp_path)
    cut = replace(cut, going_on=cut.going_on * 2)
    for row in wanted:
        parts = [r for r in cut.evaluated if (r.loss, r.seed) == (row.loss, row.seed)]
        compute([r.continuation for r in parts], tmp_path)
        one, two = (parameters(r.continuation, tmp_path) for r in (row, parts[-1]))
        for name, values in one.items():
            assert torch.equal(values, two[name]), (row.loss, name)
        steps = parts[-1].continuation.taken(tmp_path)
        assert steps == row.continuation.taken(tmp_path)
        assert [s.step for s in steps] == [3, 4, 5, 6]


def test_an_adaptive_loss_changes_its_strength_at_each_step(tables):
    rows = [r for r in tables.taken if r.loss == "adaptive-bonus" and r.seed == 0]
    assert len({r.settings for r in rows}) == len(rows)


def test_a_schedule_goes_by_the_steps_of_the_whole_training(config, trained):
    """Of 3 steps 2 are done; a fork of 4 more makes it 6, one of 1 leaves it 3."""
    assert [plan(replace(config, steps=n, halvings=0))[0].total for n in (1, 4)] == [
        3,
        6,
    ]


def test_seeds_have_other_prompts_and_losses_have_the_same(config):
    (point,) = plan(config)
    draws = {(str(r.loss), r.seed): r.continuation.draws for r in point.evaluated}
    assert draws["dr-grpo", 0] == draws[BONUS, 0]
    assert draws["dr-grpo", 0][0].problems != draws["dr-grpo", 1][0].problems


def test_the_better_half_goes_on(config, run, tables):
    """By the mean gain over seeds, computed here from the sums by prompt."""
    half = config.halved_after[0]

    def mean(loss: str, seed: int) -> float:
        rows = [
            r for r in tables.prompts if (r.loss, r.seed, r.steps) == (loss, seed, half)
        ]
        return sum(r.reward for r in rows) / sum(r.responses for r in rows)

    losses = list(dict.fromkeys(o.loss for o in tables.outcomes))
    gains = {
        loss: np.mean([mean(loss, s) - mean("dr-grpo", s) for s in range(2)])
        for loss in losses
    }
    others = sorted(losses[1:], key=lambda loss: -gains[loss])
    went_on = [o.loss for o in tables.outcomes if o.steps == config.steps]
    assert went_on == ["dr-grpo", *others[:2]]
    for o in tables.outcomes:
        if o.steps == half:
            assert o.reward_gain == pytest.approx(gains[o.loss], abs=1e-12)
            assert o.goes_on == (o.loss in went_on)


def test_entropy_is_that_of_all_tokens(config, run, tables):
    """The mean over seeds of the ratio of sums, not a mean of prompts' means."""
    for o in tables.outcomes:
        rows = [r for r in tables.prompts if (r.loss, r.steps) == (o.loss, o.steps)]
        by_seed = [
            sum(r.entropy for r in rows if r.seed == s)
            / sum(r.tokens for r in rows if r.seed == s)
            for s in range(config.seeds)
        ]
        assert o.entropy == pytest.approx(np.mean(by_seed), rel=1e-12)


def test_plain_differs_from_itself_by_nothing(tables):
    for o in tables.outcomes:
        if o.loss == "dr-grpo":
            assert (o.entropy_gain, o.reward_gain, o.passes) == (0, 0, False)
            assert np.isnan(o.entropy_gain_se)


def test_a_loss_that_took_the_steps_of_plain_is_named(config, tables):
    """clip-higher without a second step per round; others are not warned of."""
    alike = [
        replace(o, loss="clip-higher") if o.loss == "dr-grpo" else o
        for o in tables.outcomes
    ]
    found = summarize(config, replace(tables, outcomes=[*tables.outcomes, *alike]))
    (warning,) = (w for w in found["warnings"] if "steps of plain" in w)
    assert "clip-higher: it took" in warning
    assert "--window 2" in warning
    assert not any("steps of plain" in w for w in summarize(config, tables)["warnings"])


def test_a_gain_that_happens_to_be_0_has_its_interval(tables):
    name = "entropy-bonus:alpha=0.1"
    at_0 = {"reward_gain": 0.0, "reward_gain_low": -0.1, "reward_gain_high": 0.1}
    rows = [replace(o, **at_0) if o.loss == name else o for o in tables.outcomes]
    (text,) = FORK.text(replace(tables, outcomes=rows))
    (first, *_) = (line for line in text.splitlines() if name in line)
    assert "[-0.1" in first


def test_a_second_call_computes_nothing(config, run, monkeypatch):
    def refuse(self, worker) -> None:
        raise AssertionError(self)

    for kind in (Continuation, Draw, Forward):
        monkeypatch.setattr(kind, "run", refuse)
    before = json.loads((run / "summary.json").read_text())
    fork(config, run)
    assert json.loads((run / "summary.json").read_text()) == before


def test_planned_work_does_not_depend_on_which_losses_go_on(config, run, tmp_path):
    """Placeholders cost what the selected continuations do."""
    guessed = guess(config, plan(config), tmp_path)
    known = follow_up(config, plan(config), run / "passes")

    def costs(points) -> list[float]:
        return sorted(r.cost for point in points for r in point.requests())

    assert costs(guessed) == costs(known)


def test_time_is_estimated_by_the_step(config):
    """From one round of whole groups, with a prompt for each of its steps."""
    config = replace(config, steps=24, window=3, halvings=0)
    requests = requests_of(plan(config))
    for size in (2, 3):
        (small,) = (
            r for r in excerpt(requests, 4, size) if isinstance(r, Continuation)
        )
        assert small.repeats == 3
        (draw,) = small.draws
        assert Counter(draw.problems) == dict.fromkeys(set(draw.problems), size)
        assert len(set(draw.problems)) == 3
    whole = next(r for r in requests if isinstance(r, Continuation))
    rate = Rate(fixed=0.5, per_cost=0.0)
    assert rate.seconds(whole) == 12.0


def test_a_loss_that_is_stopped_takes_no_further_step(config, tmp_path, monkeypatch):
    """Two halvings: 4, 3 and 2 losses go on, each for 2 seeds, and no other is run."""
    taken: list[Continuation] = []
    run = Continuation.run

    def counted(self, worker) -> None:
        taken.append(self)
        run(self, worker)

    monkeypatch.setattr(Continuation, "run", counted)
    twice = replace(config, halvings=2, prompts=8, responses=1)
    tables = fork(twice, tmp_path / "run")
    assert len(taken) == 2 * (4 + 3 + 2)
    went_on = [[o.loss for o in tables.outcomes if o.steps == n] for n in (1, 2, 4)]
    assert [len(losses) for losses in went_on] == [4, 3, 2]
    for before, after in pairwise(went_on):
        assert set(after) < set(before)


def test_best_orders_by_what_is_asked(config, run):
    (point,) = follow_up(config, plan(config), run / "passes")
    half = Evaluations.of(point.evaluated, config.halved_after[0], run / "passes")
    for by in ("entropy", "reward"):
        gains = [half.gain(loss, by).expected.value for loss in half.best(by)]
        assert gains == sorted(gains, reverse=True)


def test_batch_sizes_are_the_trainings(trained):
    found = trained_settings([str(trained / "checkpoint-2")], ForkConfig)
    settings = json.loads((trained / "config.json").read_text())
    for name, of in ForkConfig.OF_TRAINING.items():
        assert found[name] == settings[of]


def test_batch_sizes_of_a_watched_training_are_those_of_its_updates(trained, tmp_path):
    """Which has no config of ours; its steps per round of sampling are not known."""
    watched = tmp_path / "watched"
    for part in ("checkpoint-2", "updates"):
        shutil.copytree(trained / part, watched / part)
    found = trained_settings([str(watched / "checkpoint-2")], ForkConfig)
    settings = json.loads((trained / "config.json").read_text())
    for name in ("update_prompts", "update_responses"):
        assert found[name] == settings[ForkConfig.OF_TRAINING[name]]
    assert "window" not in found
    # An experiment whose batches need not be the training's has sizes of its own.
    assert "update_prompts" not in trained_settings([str(watched / "checkpoint-2")])


def test_page(run, tmp_path):
    page = write_report([run], tmp_path / "report.html", kinds=run_kinds()).read_text()
    assert "Where each loss leads" in page
    assert "after 4 steps" in page
    assert page.count("<svg") >= 2


def test_when_losses_are_evaluated_and_stopped(config):
    assert (config.halved_after, config.evaluated_after) == ((2,), (2, 4))
    config = replace(config, steps=20, halvings=2, every=6)
    assert (config.halved_after, config.evaluated_after) == (
        (5, 10),
        (5, 6, 10, 12, 18, 20),
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"interventions": ()}, "at least one loss"),
        ({"sampler": "bfloat16"}, "sampled by the continued policy itself"),
        ({"steps": 5, "window": 2}, "multiple of window"),
        ({"every": 1, "window": 2}, "every to be a multiple of window"),
        ({"halvings": 3}, "at least 8 steps for 3 halvings"),
        ({"seeds": 1}, "seeds of at least 2"),
    ],
)
def test_settings_that_cannot_be_run(config, changed, message):
    with pytest.raises(InvalidValue, match=message):
        replace(config, **changed)


def test_a_loss_that_reads_what_no_step_has(config):
    with pytest.raises(InvalidValue, match="entrometer compare"):
        plan(replace(config, interventions=("frontier",)))
