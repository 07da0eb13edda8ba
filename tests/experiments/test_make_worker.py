"""What a user registers in the driver is known to the workers on Ray."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pytest

ray = pytest.importorskip("ray")

from entrometer.engine import FailedWork, quiet  # noqa: E402
from entrometer.engine.own_cluster import own_cluster  # noqa: E402
from entrometer.engine.ray_engine import RayEngine  # noqa: E402
from entrometer.errors import InvalidValue  # noqa: E402
from entrometer.experiments.requests.make_worker import MakeWorker  # noqa: E402
from entrometer.interventions import register  # noqa: E402
from entrometer.runs import atomic_write  # noqa: E402
from entrometer.tasks import registry as tasks  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore:.*:FutureWarning"
)

FILES = {
    "users_remedies": """
from dataclasses import dataclass
from entrometer import tasks
from entrometer.interventions import register
import users_helpers

@register("users-half", by_token=True)
def half(tables, *, weight=0.5):
    return users_helpers.scaled(tables, weight)

@tasks.register("users-letters")
@dataclass(frozen=True)
class Letters:
    name: str = "users-letters"
    def score(self, problem, response):
        return tasks.Score(users_helpers.share(response), 0.0)
""",
    "users_helpers": """
def scaled(tables, weight):
    return -weight * tables.A * tables.S

def share(response):
    return len(response) / 10
""",
}

INTERACTIVE = """
def double(tables, *, weight=2.0):
    return -weight * tables.A * tables.S
"""


@dataclass(frozen=True, eq=False)
class Uses:
    """Calls what the user registered, in the worker."""

    name: str
    kind: str = "uses"
    required_model: str = ""
    cost: float = 1.0
    needs: tuple = ()
    pieces: tuple = ()
    part_of: str = ""

    def path(self, store: Path) -> Path:
        return store / f"{self.name}.txt"

    def tokens(self, store: Path) -> int:
        return 0

    def run(self, worker) -> None:
        import torch

        from entrometer.interventions import TokenTables, intervention
        from entrometer.tasks import task

        one = torch.ones(1, 1, dtype=torch.float64)
        tables = TokenTables(
            S=one, H=one, S_old=one, A=one, mask=one > 0, group=one[0], length_limit=1
        )
        losses = [
            intervention(name).token_losses(tables).item()
            for name in ("users-half", "users-double")
        ]
        score = task("users-letters").score(None, "abc").answer
        with atomic_write(self.path(worker.store)) as file:
            file.write(f"{losses} {score}".encode())


@pytest.fixture(scope="module")
def cluster():
    module = sys.modules[__name__]
    with own_cluster():
        ray.cloudpickle.register_pickle_by_value(module)
        yield
        ray.cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Two files beside a script, and a cell of a notebook; no worker has the path."""
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    importlib.import_module("users_remedies")
    cell = {"__name__": "__main__"}
    exec(INTERACTIVE, cell)
    register("users-double")(cell["double"])
    yield tmp_path
    for name in FILES:
        del sys.modules[name]


def run(store):
    return RayEngine(workers=1).run(
        [Uses("used")],
        worker=MakeWorker.with_registered(),
        store=store,
        progress=quiet,
    )


def test_a_remedy_and_a_task_of_the_user_are_known_on_ray(cluster, users):
    (row,) = run(users)
    assert (users / row.name).read_text() == "[-0.5, -2.0] 0.3"


def test_a_remedy_that_cannot_be_sent_is_refused_before_any_work(cluster, users):
    held = Lock()
    register("users-closed")(lambda tables: held)
    with pytest.raises(InvalidValue, match=r"intervention 'users-closed'.*lock"):
        run(users)
    assert not (users / "used.txt").exists()
    assert not list(users.glob(".seen-*"))


def test_a_worker_that_lacks_a_library_of_the_user_ends_it_before_any_work(
    cluster, users, monkeypatch
):
    """Libraries that the driver has installed are not sent."""
    monkeypatch.setattr(
        "entrometer.experiments.requests.make_worker.own_modules", lambda _: []
    )
    with pytest.raises(FailedWork, match=r"worker to start.*users_"):
        run(users)
    assert not (users / "used.txt").exists()
