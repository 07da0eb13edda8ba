"""A measurement from end to end: what it finds, and what it does not do twice."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.measure.plan import plan
from entrometer.runs import verify
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.measure import MeasureTables
from tests.experiments.runs import measure


@pytest.fixture
def found(measured):
    return read_tables(measured, MeasureTables)


def tables(run):
    """The results, byte by byte: NaN is not equal to itself."""
    return {p.name: p.read_bytes() for p in (run / "results").iterdir()}


def counted(config, run, **where):
    """Passes that a measurement carried out, by kind."""
    made = Counter()
    measure(config, run, progress=lambda status: made.update([status.note]), **where)
    return made


def test_the_directory_is_complete(measured):
    about = verify(measured)
    assert (about["kind"], about["finished"]) == ("measure", True)
    assert {p.name for p in measured.iterdir()} == {
        *("about.json", "config.json", "manifest.json", "summary.json"),
        *(".lock", "passes", "results"),
    }


def test_a_row_for_every_way_rate_update_and_entropy(found, config):
    ways = {(c.weighting, c.baseline) for c in found.changes}
    assert len(ways) == 5
    assert len(found.changes) == 5 * 2 * len(config.etas) * len(config.updates)
    assert len(found.terms) == 5 * 2 * len(config.updates)
    assert {c.responses for c in found.changes} == {20}


@pytest.mark.parametrize("per", ["token", "sequence"])
@pytest.mark.parametrize("weighting", ["sequence", "per_decision", "doubly_robust"])
def test_prediction_and_change_meet_in_proportion_to_the_rate(found, per, weighting):
    """The pairing is exact on any batch: a tenth of the rate, a tenth of the error."""
    rows = [c for c in found.changes if (c.per, c.weighting) == (per, weighting)]
    for small, large in zip(rows[::2], rows[1::2], strict=True):
        errors = [abs(c.error / c.observed) for c in (small, large)]
        assert errors[0] == pytest.approx(errors[1] / 10, rel=0.1)


def test_the_curvature_takes_the_error_to_the_next_order(found):
    """Measured on all prompts, it leaves an error of a higher power of the rate."""
    for c in found.changes:
        assert abs(c.quadratic - c.observed) < 0.1 * abs(c.error)


def test_a_second_call_computes_nothing(measured, config, tmp_path):
    run = shutil.copytree(measured, tmp_path / "copy")
    assert counted(config, run) == {}
    assert tables(run) == tables(measured)


def test_one_more_rate_computes_only_that_rate(measured, other, tmp_path):
    run = shutil.copytree(measured, tmp_path / "copy")
    assert counted(other, run) == {"forward": 3 * 2}


def test_a_larger_batch_begins_with_the_smaller(measured, config, tmp_path):
    run = shutil.copytree(measured, tmp_path / "copy")
    larger = replace(config, prompts=24, updates=("recorded",))
    made = counted(larger, run)
    assert made["rollouts"] == 1
    assert made["forward"] == 1 + len(config.etas)


def test_a_measurement_that_lost_passes_ends_in_the_same_tables(
    measured, config, tmp_path
):
    run = shutil.copytree(measured, tmp_path / "copy")
    lost = sorted((run / "passes").iterdir())[1::2]
    for path in lost:
        path.unlink()
    shutil.rmtree(run / "results")
    (run / "manifest.json").unlink()
    assert counted(config, run).total() == len(lost)
    assert tables(run) == tables(measured)


def test_runs_may_share_a_store(measured, config, tmp_path):
    made = counted(config, tmp_path / "new", store=measured / "passes")
    assert made == {}
    assert tables(tmp_path / "new") == tables(measured)


def test_a_moved_checkpoint_is_the_same_checkpoint(measured, config, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "moved")
    moved = (str(tmp_path / "moved" / "checkpoint-2"),)
    run = shutil.copytree(measured, tmp_path / "copy")
    assert counted(replace(config, checkpoints=moved), run) == {}


def test_another_weight_is_another_checkpoint(config, trained):
    other = replace(config, checkpoints=(str(trained / "checkpoint-1"),))
    keys = [{r.key for p in plan(c) for r in p.requests()} for c in (config, other)]
    assert not keys[0] & keys[1]


def test_no_two_requests_share_a_key(config):
    keys = [r.key for p in plan(config) for r in p.requests()]
    assert len(set(keys)) == len(keys)


def test_requests_come_after_what_they_need(config):
    made = set()
    for point in plan(config):
        for request in point.requests():
            needs = [
                getattr(request, name)
                for name in ("rollouts", "step")
                if getattr(request, name, None) is not None
            ]
            assert all(n.key in made for n in needs)
            made.add(request.key)


def test_samples_are_the_responses(found, config):
    assert len(found.samples) == config.prompts
    assert all(s.prompt_text and s.tokens <= config.max_tokens for s in found.samples)
    assert len({s.reward for s in found.samples}) > 1


def test_the_inputs_are_named_by_content(measured):
    about = json.loads((measured / "about.json").read_text())
    subject = about["inputs"]["checkpoint-2"]
    assert len(subject["weights"]) == len(subject["optimizer"]) == 64
    assert about["versions"]["torch"]
    assert about["stages"]["forward"]["passes"] == 3 * (1 + 2 * 2)


def test_every_table_is_there(measured):
    assert {p.stem for p in (measured / "results").iterdir()} == set(
        table_classes(MeasureTables)
    )


def test_a_batch_that_was_not_recorded_is_told(config, trained):
    last = replace(config, checkpoints=(str(trained / "checkpoint-3"),))
    with pytest.raises(InvalidValue, match=r"step-00000004.*sampled-1"):
        plan(last)


def test_the_fresh_checkpoint_can_be_measured(config, trained, tmp_path):
    """Before the first step AdamW has no state: it goes by signs."""
    first = replace(
        config,
        checkpoints=(str(trained / "checkpoint-0"),),
        updates=("recorded",),
        variance_prompts=0,
        curvature_prompts=0,
        etas=(1e-6,),
    )
    found = measure(first, tmp_path / "run")
    assert all(abs(c.error) < 1e-3 * abs(c.observed) for c in found.changes)
    assert found.variances == []
