"""Ray actors that run requests: one per worker, or one per shard of its model."""

import os
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import ray
from ray import exceptions
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from entrometer.engine.first_error import LostMember
from entrometer.engine.remote_worker import RemoteWorker
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


@dataclass(eq=False)
class Actor:
    """A worker's actors, the model that it has loaded, and the request that it runs."""

    members: list[Any]
    """One actor, or one per shard of the model; the first leads the others."""

    placement: Any = None
    """Placement group of several actors."""

    required_model: Hashable = None
    work: Work | None = None
    row: Row | None = None
    calls: list[Any] = field(default_factory=list)
    """References of the members' calls, the leader's first."""

    left: set[Any] = field(default_factory=set)
    """Those of `calls` that have not returned."""

    def call(self, calls: list[Any]) -> None:
        """Remember calls of all members."""
        self.calls, self.left = calls, set(calls)


class ActorPool:
    """As many workers as are wanted and fit on the cluster; dead ones are replaced."""

    def __init__(self, engine: "RayEngine", store: Path, worker: MakeWorker) -> None:
        self._engine, self._store, self._worker = engine, store, worker
        self._token = f".seen-{token_hex(8)}"
        (store / self._token).touch()
        self._class: Any = ray.remote(RemoteWorker)
        self._starting: dict[Any, Actor] = {}
        self.idle: list[Actor] = []
        self.busy: dict[Any, Actor] = {}
        """Workers that run a request, by the references of their members' calls."""
        self._looked = 0.0
        self._capacity = 0
        self._stillborn = 0

    @property
    def running(self) -> int:
        """Number of workers that run a request."""
        return len(set(self.busy.values()))

    @property
    def workers(self) -> int:
        """Number of workers that have been created."""
        return len(self.idle) + self.running

    @property
    def awaited(self) -> list[Any]:
        """References of running requests and starting actors, for `ray.wait`."""
        return [*self.busy, *self._starting]

    def grow(self, wanted: int) -> None:
        """Start workers up to the number wanted, as far as the cluster has room."""
        now = time.monotonic()
        # Listing the nodes asks the cluster's head, which must not happen per result.
        if now - self._looked > LOOK:
            self._looked, self._capacity = now, self._fitting()
            # Workers that start later look for it too, and `store --collect` deletes
            # files that nothing has touched for long. One that is gone stays so: its
            # absence is what a node without the store is known by.
            with suppress(FileNotFoundError):
                os.utime(self._store / self._token)
        most = min(self._capacity, self._engine.workers or self._capacity)
        starting = len(set(self._starting.values()))
        for _ in range(min(most, wanted) - self.workers - starting):
            actor = self._begun()
            self._starting |= dict.fromkeys(actor.calls, actor)

    def arrived(self, ref: Any) -> bool:
        """Return whether a reference is of a starting worker; add the worker if alive.

        A worker of several actors is added with the last of them.
        """
        if ref not in self._starting:
            return False
        actor = self._starting.pop(ref)
        try:
            ray.get(ref)
        except (*DEAD, exceptions.RayTaskError) as error:
            self.end(actor)
            self._stillborn += 1
            # Ray names the creation task if `RemoteWorker.__init__` raised, which no
            # retry mends. An actor whose node was taken away is started again.
            cause: BaseException = error
            created = "creation task" in str(error)
            if isinstance(error, exceptions.RayTaskError):
                # The member of a group makes its worker in a call of its own.
                cause = error.cause
                created = not isinstance(cause, LostMember)
            if created or self._stillborn > _STILLBORN:
                raise FailedWork(
                    f"expected a worker to start, got {one_line(cause)}; fix the "
                    "cause, then resume with --resume"
                ) from error
            return True
        actor.left.discard(ref)
        if not actor.left:
            self._stillborn = 0
            self.idle.append(actor)
        return True

    def start(self, actor: Actor, work: Work) -> None:
        """Run a request on an idle worker."""
        actor.work, actor.required_model = work, work.required_model
        actor.call([member.run.remote(work) for member in actor.members])
        self.busy |= dict.fromkeys(actor.calls, actor)

    def returned(self, actor: Actor, ref: Any, row: Row | None) -> bool:
        """Return whether the whole worker is idle again, after a member's call."""
        del self.busy[ref]
        actor.left.discard(ref)
        if ref == actor.calls[0]:
            actor.row = row
        if actor.left:
            return False
        actor.work = None
        self.idle.append(actor)
        return True

    def failed(self, actor: Actor) -> None:
        """Take a worker back whose request raised an error."""
        if len(actor.members) > 1:
            # The other members wait in the pass for the one that raised.
            self.end(actor)
        else:
            self.returned(actor, actor.calls[0], None)

    def end(self, actor: Actor) -> None:
        """Stop a worker with all its actors, and free what they hold."""
        for calls in (self._starting, self.busy):
            for ref in [ref for ref, of in calls.items() if of is actor]:
                del calls[ref]
        # Killed, not asked to end: results are renamed into place once complete, so a
        # stopped request leaves nothing that could be taken for a result.
        for member in actor.members:
            ray.kill(member)
        if actor.placement is not None:
            remove_placement_group(actor.placement)

    def dismiss(self) -> None:
        """Stop all workers."""
        for actor in {*self.idle, *self.busy.values(), *self._starting.values()}:
            self.end(actor)
        (self._store / self._token).unlink(missing_ok=True)

    @property
    def resources(self) -> dict[str, float]:
        """Resources per worker, by Ray's names."""
        return {name: n * self._engine.shards for name, n in self._of_actor.items()}

    @property
    def _of_actor(self) -> dict[str, float]:
        taken = {"CPU": self._engine.cpus, "GPU": self._engine.gpus}
        return {name: number for name, number in taken.items() if number}

    def _begun(self) -> Actor:
        """Return a worker whose actors are starting."""
        of_actor = {"num_cpus": self._engine.cpus, "num_gpus": self._engine.gpus}
        given = (self._worker, str(self._store), self._token)
        if self._engine.shards == 1:
            alone = self._class.options(**of_actor).remote(*given)
            actor = Actor([alone])
            actor.call([alone.ready.remote()])
            return actor
        size = self._engine.shards
        # On one node: members exchange activations and weights in every layer.
        placement = placement_group([self._of_actor] * size, strategy="STRICT_PACK")
        members = [
            self._class.options(
                **of_actor,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement, placement_group_bundle_index=rank
                ),
            ).remote(*given, alone=False)
            for rank in range(size)
        ]
        place = members[0].meeting_place.remote()
        actor = Actor(members, placement)
        actor.call([m.join.remote(place, rank, size) for rank, m in enumerate(members)])
        return actor

    def _fitting(self) -> int:
        # Node by node: neither an actor nor a group can take resources of two nodes.
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        actors = (
            min(int(n["Resources"].get(k, 0) / x) for k, x in self._of_actor.items())
            for n in nodes
            if n["Alive"]
        )
        return sum(number // self._engine.shards for number in actors)
