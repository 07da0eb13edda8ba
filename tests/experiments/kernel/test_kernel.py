"""A measurement of the kernel from end to end."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.kernel.plan import plan
from entrometer.experiments.kernel.summary import relative_error
from entrometer.experiments.requests import Draw
from entrometer.runs import verify
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.kernel import KernelTables
from tests.experiments.runs import kernel


@pytest.fixture
def found(kernel_run):
    return read_tables(kernel_run, KernelTables)


def tables(run):
    """The results, byte by byte: NaN is not equal to itself."""
    return {p.name: p.read_bytes() for p in (run / "results").iterdir()}


def counted(config, run, **where):
    """Passes that a measurement carried out, by kind."""
    made = Counter()
    kernel(config, run, progress=lambda status: made.update([status.note]), **where)
    return made


def test_the_directory_is_complete(kernel_run):
    about = verify(kernel_run)
    assert (about["kind"], about["finished"]) == ("kernel", True)
    assert {p.name for p in kernel_run.iterdir()} == {
        *("about.json", "config.json", "manifest.json", "summary.json"),
        *(".lock", "passes", "results"),
    }
    assert {p.stem for p in (kernel_run / "results").iterdir()} == set(
        table_classes(KernelTables)
    )


def test_a_row_for_every_metric_block_size_and_response(found, kernel_config):
    assert len(found.whole) == 2
    assert len(found.blocks) == 2 * 3 * 2
    assert len(found.growth) == 2 * 3
    assert len(found.sketches) == 2 * 3
    assert len(found.predictions) == 2 * kernel_config.held_out
    for metric in ("sgd", "adam"):
        own = [e for e in found.eigenvalues if e.metric == metric]
        assert Counter(e.method for e in own) == {"dense": 12, "matrix-free": 4}
        blocks = Counter(e.block for e in found.elements if e.metric == metric)
        assert blocks == {"self": 12, "prompt": 4 * 3, "other": 6 * 9}


def test_eigenvalues_without_the_matrix_are_those_of_the_matrix(found):
    for metric in ("sgd", "adam"):
        own = [e for e in found.eigenvalues if e.metric == metric]
        dense = {e.rank: e.value for e in own if e.method == "dense"}
        for e in (e for e in own if e.method == "matrix-free"):
            assert e.value == pytest.approx(dense[e.rank], rel=1e-10)


def test_eigenvalues_sum_to_the_trace_and_none_is_negative(found):
    for w in found.whole:
        own = [
            e.value
            for e in found.eigenvalues
            if e.metric == w.metric and e.method == "dense"
        ]
        assert sum(own) == pytest.approx(w.trace, rel=1e-12)
        assert min(own) > -1e-14 * w.trace


def test_predicted_changes_are_the_measured_ones_as_the_rate_falls(found):
    """Momentum and decay in; both are far from nothing in this training."""
    for update in ("recorded", "sampled-1"):
        rows = [p for p in found.predictions if p.update == update]
        assert relative_error(rows) < 1e-6
        assert relative_error(rows, own=True) > 1e-2


def test_a_tenth_of_the_rate_is_a_tenth_of_the_error(
    kernel_run, kernel_config, tmp_path
):
    """What is left of the error is the second order."""
    errors = []
    for eta in (1e-5, 1e-6):
        other = replace(kernel_config, eta=eta, updates=("recorded",))
        found = kernel(other, tmp_path / str(eta), store=kernel_run / "passes")
        errors.append(relative_error(found.predictions))
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.1)


def test_a_second_call_computes_nothing(kernel_run, kernel_config, tmp_path):
    run = shutil.copytree(kernel_run, tmp_path / "copy")
    assert counted(kernel_config, run) == {}
    assert tables(run) == tables(kernel_run)


def test_less_memory_computes_nothing_anew(kernel_run, kernel_config, tmp_path):
    other = replace(kernel_config, memory=0.001)
    assert counted(other, tmp_path / "new", store=kernel_run / "passes") == {}


def test_another_rate_computes_only_the_changes(kernel_run, kernel_config, tmp_path):
    run = shutil.copytree(kernel_run, tmp_path / "copy")
    assert counted(replace(kernel_config, eta=1e-8), run) == {"forward": 2}


def test_a_measurement_that_lost_passes_ends_in_the_same_tables(
    kernel_run, kernel_config, tmp_path
):
    run = shutil.copytree(kernel_run, tmp_path / "copy")
    requests = list(plan(kernel_config)[0].requests())[1::2]
    # The seconds of a kernel are in its file.
    lost = [r.path(run / "passes") for r in requests if r.kind != "kernel"]
    for path in lost:
        path.unlink()
    shutil.rmtree(run / "results")
    (run / "manifest.json").unlink()
    assert counted(kernel_config, run).total() == len(lost)
    assert tables(run) == tables(kernel_run)


def test_prompts_of_kernel_held_out_and_sampled_update_are_apart(kernel_config):
    (point,) = plan(kernel_config)
    sets = [
        {p for draw in point.gram.draws for p in draw.problems},
        {p for h in point.here for p in h.rollouts.problems},
        {
            p
            for u in point.updates
            if isinstance(u.step.batch, Draw)
            for p in u.step.batch.problems
        },
    ]
    assert [len(s) for s in sets] == [4, 5, 5]
    assert len(set.union(*sets)) == 14
    seeds = [s for draw in point.gram.draws for s in draw.seeds]
    assert len(set(seeds)) == 12


def test_too_few_problems_are_refused(kernel_config):
    with pytest.raises(InvalidValue, match=r"expected 12 problems.*got 11.*--problems"):
        plan(replace(kernel_config, held_out=8))


def test_a_sketched_kernel_has_no_exact_one(kernel_run, kernel_config, tmp_path):
    config = replace(kernel_config, sketch_above=11, eigenvalues=0)
    found = kernel(config, tmp_path / "run", store=kernel_run / "passes")
    exact = read_tables(kernel_run, KernelTables)
    assert {e.method for e in found.eigenvalues} == {"sketch"}
    assert [s.m for s in found.sketches] == [1024, 1024]
    assert np.isnan([s.error for s in found.sketches]).all()
    for w, other in zip(found.whole, exact.whole, strict=True):
        assert w.trace == pytest.approx(other.trace, rel=0.2)
        assert w.trace != other.trace


def test_sketches_are_off_by_what_theory_says(found):
    for s in found.sketches:
        assert s.error == pytest.approx(s.expected, rel=0.6)


def test_requests_come_after_what_they_need_and_share_no_key(kernel_config):
    made = set()
    for request in plan(kernel_config)[0].requests():
        needs = [*getattr(request, "draws", ())]
        needs += [
            n
            for n in (
                getattr(request, "rollouts", None),
                getattr(request, "step", None),
            )
            if n is not None
        ]
        assert all(n.key in made for n in needs)
        assert request.key not in made
        made.add(request.key)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sketches": (100, 256)}, r"divide the largest, 256, got \[100\]"),
        ({"sketches": ()}, "at least one bucket"),
        ({"kernel_responses": 1}, "kernel_responses of at least 2"),
        ({"eta": -1.0}, "finite eta of at least 0"),
        ({"memory": 0.0}, "memory above 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(kernel_config, wrong, said):
    with pytest.raises(InvalidValue, match=said):
        replace(kernel_config, **wrong)
