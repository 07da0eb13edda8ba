"""Work on a Ray cluster of several nodes in this machine."""

import math
import os
import sys
import warnings

import pytest

os.environ.setdefault("RAY_worker_niceness", "0")
ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from entrometer.engine import FailedWork, StoreTrouble, quiet, read_log  # noqa: E402
from entrometer.engine.actor_pool import ActorPool  # noqa: E402
from entrometer.engine.ray_engine import NoCluster, RayEngine, _connect  # noqa: E402
from entrometer.errors import InvalidValue  # noqa: E402
from tests.engine import pieces as module  # noqa: E402
from tests.engine.pieces import Hand, Piece  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        ray.init(address=found.address, log_to_driver=False)
        # Workers do not have the tests on their path.
        for own in (module, sys.modules[__name__]):
            ray.cloudpickle.register_pickle_by_value(own)
    yield found
    ray.shutdown()
    found.shutdown()


def run(works, store, progress=quiet, **settings):
    engine = RayEngine(**settings)
    return engine.run(works, worker=Hand, store=store, progress=progress)


def tree(marks, **settings):
    """Eight leaves, four sums, and their sum."""
    leaves = [Piece(f"leaf{i}", marks=str(marks), **settings) for i in range(8)]
    sums = [Piece(f"sum{i}", tuple(leaves[2 * i : 2 * i + 2])) for i in range(4)]
    return [*leaves, *sums, Piece("root", tuple(sums))]


@pytest.fixture
def places(tmp_path):
    store, marks = tmp_path / "store", tmp_path / "marks"
    store.mkdir()
    marks.mkdir()
    return store, marks


def test_every_piece_is_made_once_and_after_what_it_needs(cluster, places):
    store, marks = places
    rows = run(tree(marks), store)
    assert sorted(row.name for row in rows) == sorted(
        p.name for p in store.glob("*.txt")
    )
    assert sorted(r.name for r in read_log(store)) == sorted(r.name for r in rows)
    inner = [f"sum{i}(leaf{2 * i}(),leaf{2 * i + 1}())" for i in range(4)]
    assert (store / "root.txt").read_text() == f"root({','.join(inner)})"
    assert {mark.stat().st_size for mark in marks.iterdir()} == {1}
    assert run(tree(marks), store) == []
    assert not list(store.glob(".*"))


def test_a_worker_that_dies_is_replaced_and_its_piece_begun_again(cluster, places):
    store, marks = places
    told = []
    works = tree(marks, fault="kill")
    rows = run(works, store, told.append)
    assert len(rows) == len(works)
    assert {mark.stat().st_size for mark in marks.iterdir()} == {2}
    assert told[-1].retries == 8
    assert told[-1].left == 0


def test_a_piece_that_fails_once_is_tried_again(cluster, places):
    store, marks = places
    rows = run(tree(marks, fault="once"), store)
    assert len(rows) == 13
    assert {mark.stat().st_size for mark in marks.iterdir()} == {2}


@pytest.mark.parametrize("fault", ["always", "killer"])
def test_a_piece_that_always_fails_is_named_and_the_rest_is_done(
    cluster, places, fault, monkeypatch
):
    monkeypatch.setattr("entrometer.engine.schedule.LOSSES", 3)
    store, _ = places
    bad = Piece("bad", fault=fault)
    works = [bad, *(Piece(f"good{i}") for i in range(4)), Piece("after", (bad,))]
    with pytest.raises(FailedWork, match=r"1 that failed.*bad\.txt: .*; 1 that wait"):
        run(works, store, workers=2)
    assert len(list(store.glob("good*.txt"))) == 4


def test_so_many_failures_that_it_is_not_the_pieces_end_it_early(cluster, places):
    store, _ = places
    works = [Piece(f"bad{i}", fault="always", cost=9) for i in range(9)]
    slow = [Piece(f"slow{i}", seconds=0.1) for i in range(50)]
    with pytest.raises(FailedWork, match=r"9 that failed.* 50 more were not run"):
        run([*works, *slow], store, workers=1)


def test_a_worker_is_not_spread_over_two_nodes(cluster, places):
    """Four cores are there, two on each node: none holds a worker of three."""
    store, _ = places
    second = cluster.add_node(num_cpus=2)
    told = []

    def give_up(status):
        told.append(status.note)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([Piece("a")], store, give_up, cpus=3.0)
    cluster.remove_node(second)
    assert told == ["waits for a node of 3 CPU"]


@pytest.mark.parametrize(
    "settings",
    [{"workers": -1}, {"cpus": 0.0}, {"cpus": -1.0, "gpus": 2.0}, {"gpus": math.nan}],
)
def test_workers_that_no_cluster_could_hold_are_refused(settings):
    with pytest.raises(InvalidValue, match="expected workers of at least 0"):
        RayEngine(**settings)


def test_a_full_disk_ends_it_at_once(cluster, places):
    store, _ = places
    works = [Piece("bad", fault="disk", cost=9), *(Piece(f"p{i}") for i in range(50))]
    with pytest.raises(StoreTrouble, match=r"No space left.*make room"):
        run(works, store, workers=1)
    assert len(list(store.glob("p*.txt"))) < 50


def test_nodes_may_come_and_go(cluster, places):
    store, _ = places
    works = [Piece(f"slow{i}", seconds=0.5) for i in range(50)]
    nodes, most = [], []

    def change(status):
        most.append(status.workers)
        if status.left == 45:
            nodes.append(cluster.add_node(num_cpus=2))
        elif nodes and status.workers > 2:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    rows = run(works, store, change)
    assert not nodes
    assert max(most) > 2
    assert most[-1] <= 2
    assert len(list(store.glob("slow*.txt"))) == 50
    assert len({row.name for row in rows}) == len(rows)


def test_a_store_that_a_node_does_not_see_is_refused(cluster, places):
    store, _ = places
    crew = ActorPool(RayEngine(workers=1), store, Hand)
    (store / crew._token).unlink()
    crew.grow(1)
    (ref,) = crew.awaited
    ray.wait([ref], timeout=60)
    with pytest.raises(FailedWork, match=r"expected the store .* on every node"):
        crew.arrived(ref)
    crew.dismiss()


def test_the_token_of_a_running_driver_stays_fresh(cluster, places):
    """`entrometer store --collect` deletes those that nothing has touched for long."""
    store, _ = places
    crew = ActorPool(RayEngine(workers=1), store, Hand)
    token = store / crew._token
    os.utime(token, (1.0, 1.0))
    crew._looked = -math.inf
    crew.grow(0)
    assert token.stat().st_mtime > 1.0
    crew.dismiss()


class Unable:
    def __init__(self, store):
        raise ModuleNotFoundError("No module named 'entrometer'")


def test_a_worker_that_cannot_begin_ends_it_and_says_why(cluster, places):
    store, _ = places
    with pytest.raises(FailedWork, match=r"worker to start.*No module named"):
        RayEngine().run([Piece("a")], worker=Unable, store=store, progress=quiet)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_a_cluster_that_is_not_there_is_named_at_once(address):
    with pytest.raises(NoCluster, match=rf"{address}.*ray start --head"):
        _connect(address)
