"""Later minibatches: further epochs, and a verdict over several updates."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer.engine import LocalEngine, quiet
from entrometer.experiments.compare.later import _effects
from entrometer.experiments.compare.later_words import later_sentences
from entrometer.experiments.compare.plan import follow_up, plan
from entrometer.experiments.experiment import run_kinds
from entrometer.experiments.requests import PolicyAfterStep
from entrometer.experiments.run import run_requests
from entrometer.experiments.token_influence.gradients import by_objective
from entrometer.report import write_report
from entrometer.runs.columns import read_columns
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from tests.experiments.runs import compare

UPDATES = ("sampled-1", "sampled-2", "sampled-3")


@pytest.fixture(scope="module")
def stale(config):
    return replace(
        config,
        updates=UPDATES,
        minibatches=("2/2",),
        interventions=("kl-cov:rho=0.2", "clip-higher:high=0.21", "entropy-bonus"),
        eta=1e-3,
    )


@pytest.fixture(scope="module")
def run(stale, tmp_path_factory):
    directory = tmp_path_factory.mktemp("later") / "run"
    compare(stale, directory)
    return directory


def test_the_gain_is_the_mean_over_updates_of_each_ones_own_steps(stale, run):
    rows = read_tables(run, CompareTables).later
    store = run / "passes"
    points = follow_up(stale, plan(stale), store)
    assert {(r.minibatch, r.batches) for r in rows} == {("2/2", 3)}
    for number, trial in enumerate(points[0].trials[1:], start=1):
        name = str(trial.variant.intervention)
        for objective in ("entropy", "reward"):
            gains = []
            for point in points:
                plain, own = (
                    by_objective(read_columns(t.slope.path(store))["total"])[objective]
                    for t in (point.trials[0], point.trials[number])
                )
                gains.append(point.eta * (own.sum() - plain.sum()))
            (row,) = (
                r
                for r in rows
                if (r.loss, r.objective) == (name, objective) and r.against
            )
            scale = max(map(abs, gains)) or 1.0
            assert row.expected == pytest.approx(np.mean(gains), abs=1e-10 * scale)


def test_losses_with_other_weights_have_intervals(run):
    rows = read_tables(run, CompareTables).later
    bonus = [r for r in rows if r.loss == "entropy-bonus" and r.against]
    assert all(r.known and r.expected_se > 0 for r in bonus)
    (told,) = later_sentences(rows)
    assert told.startswith("checkpoint-2, minibatch 2/2, over 3 updates: plain's step")


def test_the_page_draws_them(run, tmp_path):
    page = write_report([run], tmp_path / "page.html", run_kinds()).read_text()
    assert "Gain over plain at later minibatches" in page


def test_a_second_epoch_goes_over_the_parts_again(stale, tmp_path):
    """The third step over two parts is on the first part, two steps further."""
    config = replace(stale, updates=("sampled-1",), minibatches=("1/2", "3/2"))
    first, third = plan(config)
    assert (first.minibatch, third.minibatch) == ("1/2", "3/2")
    assert first.plain.batch == third.plain.batch
    assert third.steps == first.steps + 2
    assert sum(isinstance(r, PolicyAfterStep) for r in third.before) == 2
    # Its ratios are those to the policy that sampled, two steps ago.
    needed = [*third.before, *third.seen.requests()]
    run_requests(needed, tmp_path, quiet, LocalEngine())
    tables = third.seen.read(tmp_path)
    moved = (tables.S - tables.S_old)[tables.mask].abs()
    assert moved.max() > 1e-4


def test_losses_are_paired_by_name_where_a_batch_has_more_of_them(stale, run):
    """A batch with the log-probs of an engine is compared under losses on them too."""
    store = run / "passes"
    first, *others = follow_up(stale, plan(stale), store)
    whole = _effects([first, *others], store)
    named = dict(zip(whole.losses, whole.products, strict=True))
    plain, _, *rest = first.trials
    fewer = replace(first, trials=(plain, *rest))
    for points in ([fewer, *others], [others[0], fewer, others[1]]):
        found = _effects(points, store)
        assert found.losses == [str(t.variant.intervention) for t in fewer.trials]
        place = points.index(fewer)
        for loss, columns in zip(found.losses, found.products, strict=True):
            np.testing.assert_array_equal(
                columns[f"step_{place}"], named[loss]["step_0"]
            )
            np.testing.assert_array_equal(columns["step_2"], named[loss]["step_2"])
