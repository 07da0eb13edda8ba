"""Ray actors that run requests, one worker per actor."""

import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import ray
from ray import exceptions

from entrometer.engine.local import run_timed
from entrometer.engine.work import FailedWork, MakeWorker, Row, Work, one_line

if TYPE_CHECKING:
    from entrometer.engine.ray_engine import RayEngine

LOOK = 2.0
"""Seconds between two queries of the cluster's capacity."""

_STILLBORN = 32
"""Most actors in a row that may die before their worker is created."""

# A node or process that disappears, not an error of the request: retried more often.
DEAD = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
    exceptions.OwnerDiedError,
)


class RemoteWorker:
    """A worker in an actor's process."""

    def __init__(self, make_worker: MakeWorker, store: str, token: str) -> None:
        self._store = Path(store)
        # A node without the shared file system may have an empty directory by the same
        # name, so the driver's token file is checked, not the directory.
        if not (self._store / token).exists():
            raise FileNotFoundError(
                f"expected the store {store} on every node, got a node without it; "
                "give --store on storage that all nodes mount"
            )
        self._worker = make_worker(self._store)

    def ready(self) -> bool:
        """Return True; Ray makes this call wait until the worker has been created."""
        return True

    def run(self, work: Work) -> Row | None:
        """Return the log row of a request; None if the store has its result by now."""
        # An actor that was reported dead may still have written the result.
        if work.path(self._store).exists():
            return None
        return run_timed(work, self._worker, self._store)


@dataclass
class Actor:
    """An actor, the model that it has loaded, and the request that it runs."""

    actor: Any
    required_model: Hashable = None
    work: Work | None = None


class ActorPool:
    """As many actors as are wanted and fit on the cluster; dead ones are replaced."""

    def __init__(self, engine: "RayEngine", store: Path, worker: MakeWorker) -> None:
        self._engine, self._store, self._worker = engine, store, worker
        self._token = f".seen-{token_hex(8)}"
        (store / self._token).touch()
        remote: Any = ray.remote(RemoteWorker)
        self._class = remote.options(num_cpus=engine.cpus, num_gpus=engine.gpus)
        self._starting: dict[Any, Any] = {}
        self.idle: list[Actor] = []
        self.busy: dict[Any, Actor] = {}
        self._looked = 0.0
        self._capacity = 0
        self._stillborn = 0

    @property
    def workers(self) -> int:
        """Number of actors whose worker has been created."""
        return len(self.idle) + len(self.busy)

    @property
    def awaited(self) -> list[Any]:
        """References of running requests and starting actors, for `ray.wait`."""
        return [*self.busy, *self._starting]

    def grow(self, wanted: int) -> None:
        """Start actors up to the number wanted, as far as the cluster has room."""
        now = time.monotonic()
        # Listing the nodes asks the cluster's head, which must not happen per result.
        if now - self._looked > LOOK:
            self._looked, self._capacity = now, self._fitting()
        most = min(self._capacity, self._engine.workers or self._capacity)
        for _ in range(min(most, wanted) - self.workers - len(self._starting)):
            actor = self._class.remote(self._worker, str(self._store), self._token)
            self._starting[actor.ready.remote()] = actor

    def arrived(self, ref: Any) -> bool:
        """Return whether a reference is of a starting actor; add the actor if alive."""
        if ref not in self._starting:
            return False
        actor = self._starting.pop(ref)
        try:
            ray.get(ref)
        except DEAD as error:
            self._stillborn += 1
            # Ray names the creation task if `RemoteWorker.__init__` raised, which no
            # retry mends. An actor whose node was taken away is started again.
            if "creation task" in str(error) or self._stillborn > _STILLBORN:
                raise FailedWork(
                    f"expected a worker to start, got {one_line(error)}; fix the "
                    "cause, then resume with --resume"
                ) from error
            return True
        self._stillborn = 0
        self.idle.append(Actor(actor))
        return True

    def start(self, actor: Actor, work: Work) -> None:
        """Run a request on an idle actor."""
        actor.work, actor.required_model = work, work.required_model
        self.busy[actor.actor.run.remote(work)] = actor

    def dismiss(self) -> None:
        """Stop all actors."""
        started = [a.actor for a in (*self.idle, *self.busy.values())]
        # Killed, not asked to end: results are renamed into place once complete, so a
        # stopped request leaves nothing that could be taken for a result.
        for actor in [*self._starting.values(), *started]:
            ray.kill(actor)
        (self._store / self._token).unlink(missing_ok=True)

    @property
    def resources(self) -> dict[str, float]:
        """Resources per worker, by Ray's names."""
        taken = {"CPU": self._engine.cpus, "GPU": self._engine.gpus}
        return {name: number for name, number in taken.items() if number}

    def _fitting(self) -> int:
        # Node by node: an actor cannot take resources of two nodes.
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return sum(
            min(int(n["Resources"].get(k, 0) / x) for k, x in self.resources.items())
            for n in nodes
            if n["Alive"]
        )
