"""The workers of the engine on Ray: actors, as many as the cluster holds."""

import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import ray
from ray import exceptions

from entrometer.engine.local import run_timed
from entrometer.engine.work import FailedWork, MakeWorker, Row, Work

if TYPE_CHECKING:
    from entrometer.engine.ray_engine import RayEngine

LOOK = 2.0
"""Seconds between looks at what the cluster holds."""

_STILLBORN = 32
"""Workers in a row that may be lost before they began."""

DEAD = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
    exceptions.OwnerDiedError,
)


class RemoteWorker:
    """A worker in a process of its own."""

    def __init__(self, make_worker: MakeWorker, store: str, token: str) -> None:
        self._store = Path(store)
        if not (self._store / token).exists():
            raise FileNotFoundError(
                f"expected the store {store} on every node, got a node without it; "
                "give --store on storage that all of them mount"
            )
        self._worker = make_worker(self._store)

    def ready(self) -> bool:
        """Return True once the worker has been created."""
        return True

    def run(self, work: Work) -> Row | None:
        """The row of a piece; None if another has made it meanwhile."""
        if work.path(self._store).exists():
            return None
        return run_timed(work, self._worker, self._store)


@dataclass
class Actor:
    """An actor, what it has loaded, and what it is at."""

    actor: Any
    required_model: Hashable = None
    work: Work | None = None


class ActorPool:
    """The actors: as many as the cluster holds, whoever dies is replaced."""

    def __init__(self, engine: "RayEngine", store: Path, worker: MakeWorker) -> None:
        self._engine, self._store, self._worker = engine, store, worker
        self._token = f".seen-{token_hex(8)}"
        (store / self._token).touch()
        made: Any = ray.remote(RemoteWorker)
        self._class = made.options(num_cpus=engine.cpus, num_gpus=engine.gpus)
        self._coming: dict[Any, Any] = {}
        self.idle: list[Actor] = []
        self.busy: dict[Any, Actor] = {}
        self._looked = 0.0
        self._room = 0
        self._stillborn = 0

    @property
    def workers(self) -> int:
        """Those who are there."""
        return len(self.idle) + len(self.busy)

    @property
    def awaited(self) -> list[Any]:
        """What a wait can end with."""
        return [*self.busy, *self._coming]

    def grow(self, wanted: int) -> None:
        """Ask for more actors, as far as there is work and room for them."""
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked, self._room = now, self._holds()
        room = min(self._room, self._engine.workers or self._room)
        for _ in range(min(room, wanted) - self.workers - len(self._coming)):
            actor = self._class.remote(self._worker, str(self._store), self._token)
            self._coming[actor.ready.remote()] = actor

    def arrived(self, ref: Any) -> bool:
        """Take in an actor, if that is what the reference is about."""
        if ref not in self._coming:
            return False
        actor = self._coming.pop(ref)
        try:
            ray.get(ref)
        except DEAD as error:
            # An actor that cannot begin says why; one that was taken away does not.
            self._stillborn += 1
            if "creation task" in str(error) or self._stillborn > _STILLBORN:
                raise FailedWork(
                    f"expected a worker to begin, got {one_line(error)}; mend the "
                    "cause, then go on with --resume"
                ) from error
            return True
        self._stillborn = 0
        self.idle.append(Actor(actor))
        return True

    def hand(self, member: Actor, work: Work) -> None:
        """Give an idle member a piece."""
        member.work, member.required_model = work, work.required_model
        self.busy[member.actor.run.remote(work)] = member

    def dismiss(self) -> None:
        """Let all of them go."""
        members = [*self.idle, *self.busy.values()]
        for actor in [*self._coming.values(), *(m.actor for m in members)]:
            ray.kill(actor)
        (self._store / self._token).unlink(missing_ok=True)

    @property
    def asked(self) -> dict[str, float]:
        """What a worker takes of a node, as Ray names it."""
        asked = {"CPU": self._engine.cpus, "GPU": self._engine.gpus}
        return {name: number for name, number in asked.items() if number}

    def _holds(self) -> int:
        """Workers that fit, node by node: none is spread over two."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        fit = [
            min(int(node["Resources"].get(k, 0) / n) for k, n in self.asked.items())
            for node in nodes
            if node["Alive"]
        ]
        return sum(fit)


def one_line(error: BaseException) -> str:
    """The last line of an error, with its kind."""
    text = str(error).strip() or type(error).__name__
    last = text.splitlines()[-1]
    return f"{type(error).__name__}: {last[:300]}"
