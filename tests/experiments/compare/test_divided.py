"""A comparison whose passes are divided finds what an undivided one finds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from entrometer.engine import LocalEngine, Manifest, quiet, read_log
from entrometer.engine.schedule import Schedule
from entrometer.experiments.batches import step_of, subject_of
from entrometer.experiments.compare.plan import plan
from entrometer.experiments.requests import Request, ShardedSum, Worker, sharded
from entrometer.experiments.requests.sharded import row_ranges
from entrometer.experiments.run import missing, run_requests
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from tests.experiments.runs import compare

KINDS = ("table-shard", "sum-shard", "sum-of-sums")


@pytest.fixture
def short(config):
    return replace(
        config,
        updates=("recorded",),
        minibatches=("2/2",),
        interventions=("entropy-bonus",),
        prompts=16,
        folds=4,
    )


@pytest.fixture
def in_pieces(monkeypatch):
    """A response or two a piece, a response a part: trees of three levels."""
    monkeypatch.setattr(Request, "shard_tokens", 13)
    monkeypatch.setattr(ShardedSum, "part_tokens", 6)
    monkeypatch.setattr(ShardedSum, "fan_in", 2)


class Backwards:
    """An engine that hands out the last of what is ready."""

    def __init__(self):
        self.rows = []

    def run(self, works, *, worker, store, progress):
        from entrometer.engine.local import run_timed

        schedule = Schedule(works, Manifest(store))
        rows = []
        while (ready := [schedule.take() for _ in range(schedule.ready)]) and ready:
            for work in reversed(ready):
                # A worker of its own for every piece.
                rows.append(run_timed(work, worker(store), store))
                schedule.done(work)
        self.rows += rows
        return rows


def test_divided_passes_find_what_undivided_ones_find(short, tmp_path, in_pieces):
    with pytest.MonkeyPatch.context() as undone:
        undone.setattr(Request, "shard_tokens", 1 << 16)
        undone.setattr(ShardedSum, "part_tokens", 1 << 14)
        whole = compare(short, tmp_path / "whole")
    pieces = compare(short, tmp_path / "pieces")
    assert {*KINDS} <= {row.kind for row in read_log(tmp_path / "pieces/passes")}
    # Nothing reads a piece after what it is a piece of.
    kinds = {p.name.rpartition("-")[0] for p in (tmp_path / "pieces/passes").iterdir()}
    assert not {*KINDS} & kinds
    for a, b in zip(whole.outcomes, pieces.outcomes, strict=True):
        assert b.predicted == pytest.approx(a.predicted, rel=1e-8, abs=1e-15)
        if a.tried:
            assert b.reformed == pytest.approx(a.reformed, rel=1e-8, abs=1e-15)
            assert b.observed == pytest.approx(a.observed, rel=1e-5, abs=1e-15)
    assert sum(a.tried for a in whole.outcomes) == 4


def test_bits_follow_from_the_plan_alone(short, tmp_path, in_pieces):
    compare(short, tmp_path / "one")
    # Pieces are compared by their hashes in the log.
    logged = {row.name: row.sha256 for row in read_log(tmp_path / "one/passes")}
    engine = Backwards()
    compare(short, tmp_path / "other", engine=engine)
    assert {*KINDS} <= {row.kind for row in engine.rows}
    assert {row.name: row.sha256 for row in engine.rows} == logged
    assert read_tables(tmp_path / "one", CompareTables) is not None


def test_a_sum_that_was_cut_short_is_gone_on_with(
    short, tmp_path, in_pieces, monkeypatch
):
    point = plan(short)[0]
    monkeypatch.setattr(Request, "shard_tokens", 1 << 16)
    have = [*point.before, *point.seen.requests()]
    run_requests(have, tmp_path, quiet, LocalEngine())
    parts = row_ranges(point.plain, ShardedSum.part_tokens)
    assert len(parts) >= 4
    seen = []
    original = type(point.plain).summands

    def counted(self, worker):
        summand = original(self, worker)

        def count(rows):
            seen.append(rows.start)
            if len(seen) == 3:
                raise KeyboardInterrupt
            return summand(rows)

        return count

    with monkeypatch.context() as patched:
        patched.setattr(type(point.plain), "summands", counted)
        patched.setattr(sharded, "running_sum", _eager)
        with pytest.raises(KeyboardInterrupt):
            run_requests([point.plain], tmp_path, quiet, LocalEngine())
        assert list(tmp_path.glob(".*.snapshot"))
        run_requests([point.plain], tmp_path, quiet, LocalEngine())
    assert seen == [part.start for part in parts[:3]] + [p.start for p in parts[2:]]
    assert not list(tmp_path.glob(".*.snapshot"))
    found = point.plain.path(tmp_path).read_bytes()
    point.plain.path(tmp_path).unlink()
    run_requests([point.plain], tmp_path, quiet, LocalEngine())
    assert point.plain.path(tmp_path).read_bytes() == found


def _eager(*args, **settings):
    from entrometer.engine.sums import running_sum

    return running_sum(*args, **settings, every=0.0)


def test_a_step_of_many_sequences_leaves_two_vectors(short, tmp_path, monkeypatch):
    monkeypatch.setattr(Request, "shard_tokens", 256)
    many = replace(short, problems=128, update_prompts=128, update_responses=8)
    subject = subject_of(many, Path(many.checkpoints[0]))
    step = step_of(many, subject, "sampled-1", 2)
    run_requests([step.batch], tmp_path, quiet, LocalEngine())
    assert step.rows == 1024
    assert len(step.shards) > 1
    held = []
    original = Manifest.remove

    def seen(manifest, pieces):
        original(manifest, pieces)
        held.append(sum(p.stat().st_size for p in tmp_path.glob("*.safetensors")))

    monkeypatch.setattr(Manifest, "remove", seen)
    run_requests([step], tmp_path, quiet, LocalEngine())
    (left,) = tmp_path.glob("*.safetensors")
    vector = sum(x.nbytes for x in step.read_direction(tmp_path).values())
    # A safetensors file has a header besides.
    assert left.stat().st_size < 2.2 * vector
    # A level of the tree and the sums that it is made from.
    assert max(held) < (len(step.shards) + ShardedSum.fan_in + 2) * vector * 1.1


def test_costs_of_the_pieces_add_up(short, tmp_path):
    point = plan(short)[0]
    whole = sum(r.cost for r in missing(point.requests(), tmp_path))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Request, "shard_tokens", 13)
        cut = plan(short)[0]
        pieces = missing(cut.requests(), tmp_path)
    assert len(pieces) > len(missing(point.requests(), tmp_path))
    assert sum(r.cost for r in pieces) == pytest.approx(whole)
    assert Worker(tmp_path).store == tmp_path
    assert np.isfinite(whole)
