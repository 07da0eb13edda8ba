"""Several processes that run every request together."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch.distributed

from entrometer.engine import StoreTrouble, quiet, read_log
from entrometer.engine.first_error import FirstError
from entrometer.errors import InvalidValue
from tests.engine import group_work
from tests.engine.group_work import Hand, Sum

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

ROOT = Path(__file__).parents[2]
BOTH = ["a-0.txt", "a-1.txt", "a.txt", "b-0.txt", "b-1.txt", "b.txt"]


def torchrun(store, *faults):
    """Run `group_program` in two processes; return its lines and exit code."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = ["-m", "tests.engine.group_program", str(store), *faults]
    done = subprocess.run(
        [sys.executable, *launcher, *program],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.splitlines(), done.returncode


def test_members_run_every_request_together_and_the_leader_writes(tmp_path):
    lines, code = torchrun(tmp_path)
    assert [json.loads(line) for line in lines] == [["a.txt", "b.txt"], []]
    assert code == 0
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == BOTH
    # The leader's file, and one that each member declares its own.
    assert (tmp_path / "a.txt").read_text() == "3 of 0"
    assert (tmp_path / "a-1.txt").read_text() == "3 of 1"
    assert [row.name for row in read_log(tmp_path)] == ["a.txt", "b.txt"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", "FailedWork expected .* ValueError: raise is a bad row .process 1"),
        ("kill", "LostMember expected 2 processes .* got one that ended"),
    ],
)
def test_a_member_that_fails_ends_the_run_with_its_reason(tmp_path, fault, said):
    lines, code = torchrun(tmp_path, fault)
    assert code != 0
    (line,) = lines
    assert re.match(said, line), line
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == BOTH
    assert [row.name for row in read_log(tmp_path)] == ["a.txt", "b.txt"]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    from entrometer.engine.own_cluster import own_cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with own_cluster():
            # Workers do not have the tests on their path.
            ray.cloudpickle.register_pickle_by_value(group_work)
            yield
            ray.cloudpickle.unregister_pickle_by_value(group_work)


def run(works, store, progress=quiet, **settings):
    from entrometer.engine.ray_engine import RayEngine

    engine = RayEngine(**{"shards": 2, "cpus": 0.5, "workers": 1} | settings)
    return engine.run(works, worker=Hand, store=store, progress=progress)


def test_a_group_that_loses_a_member_or_raises_is_replaced_once(cluster, tmp_path):
    store, marks = tmp_path / "store", tmp_path / "marks"
    store.mkdir()
    marks.mkdir()
    reports = []
    a = Sum("a")
    works = [
        *(a, Sum("b", (a,))),
        Sum("kill", (a,), fault="kill", marks=str(marks)),
        Sum("raise", (a,), fault="raise", marks=str(marks)),
    ]
    rows = run(works, store, reports.append)
    names = ["a.txt", "b.txt", "kill.txt", "raise.txt"]
    assert sorted(row.name for row in rows) == names
    assert sorted(row.name for row in read_log(store)) == names
    assert {(store / name).read_text() for name in names} == {"3 of 0"}
    # Both members fail, one by itself and one because of it: that counts once.
    assert reports[-1].retries == 2
    assert reports[-1].left == 0
    assert {(marks / f"{name}-1").stat().st_size for name in ("kill", "raise")} == {2}
    assert run(works, store) == []
    assert not list(store.glob(".*"))


def test_a_full_disk_in_one_member_ends_it_at_once(cluster, tmp_path):
    with pytest.raises(StoreTrouble, match=r"No space left.*make room"):
        run([Sum("disk", fault="disk")], tmp_path)


def test_a_group_is_not_spread_over_what_no_node_has(cluster, tmp_path):
    notes = []

    def give_up(status):
        notes.append(status.note)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([Sum("a")], tmp_path, give_up, cpus=5e5)
    assert notes == ["waits for a node of 1e+06 CPU"]


def test_a_model_has_at_least_one_shard():
    pytest.importorskip("ray")
    from entrometer.engine.ray_engine import RayEngine

    with pytest.raises(InvalidValue, match=r"at least 1 shard .* --model-shards"):
        RayEngine(shards=0)


def test_the_error_that_came_first_is_the_one_that_is_raised():
    store = torch.distributed.HashStore()
    leader, other = (FirstError(store, rank, 2) for rank in (0, 1))
    full = StoreTrouble(28, "expected to write; make room")
    assert other.cause(full) is full
    closed = RuntimeError("[gloo/transport/tcp/pair.cc:5] Connection closed by peer")
    cause = leader.cause(closed)
    assert isinstance(cause, StoreTrouble)
    assert (cause.errno, cause.strerror) == (28, "expected to write; make room")


def test_an_error_of_gloo_that_is_no_lost_connection_is_raised_as_it_is():
    first = FirstError(torch.distributed.HashStore(), 0, 2)
    sizes = RuntimeError("[gloo/transport/tcp/pair.cc:5] op.preamble 4 vs 8")
    assert first.cause(sizes) is sizes
