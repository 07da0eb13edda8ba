"""The engine on a Ray cluster: a worker an actor, a model a worker."""

import logging
import socket
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import ray
from ray import exceptions

from entrometer.engine.here import carried_out
from entrometer.engine.manifest import Manifest, store_trouble
from entrometer.engine.schedule import Schedule
from entrometer.engine.work import (
    FailedWork,
    MakeWorker,
    Progress,
    Row,
    Status,
    StoreTrouble,
    Work,
    Works,
)
from entrometer.errors import EntrometerError

_LOOK = 2.0
"""Seconds between looks at what the cluster holds."""

_STILLBORN = 32
"""Workers in a row that may be lost before they began."""

_MOST_FAILED = 8
"""Pieces that are given up before all is: then it is not the pieces."""

_DEAD = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
    exceptions.OwnerDiedError,
)


@dataclass(frozen=True, kw_only=True)
class OnRay:
    """Carries work out on the nodes of a cluster that see the store.

    Nodes may come and go. A worker that dies loses the piece that it was at, which
    another begins again; whatever happens, a piece is in the store once, and whole.
    """

    address: str | None = None
    """Of the cluster; None starts one on this machine."""

    workers: int = 0
    """At most so many at a time; 0 for as many as the cluster holds."""

    cpus: float = 1.0
    gpus: float = 0.0
    """What a worker takes of a node."""

    def carry_out(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Hand out the longest first, and begin again what is lost."""
        manifest = Manifest(store)
        schedule = Schedule(works, manifest)
        if not schedule.pieces:
            return []
        ours = not ray.is_initialized()
        if ours:
            _connect(self.address)
        try:
            with store_trouble(store):
                crew = _Crew(self, store.resolve(), worker)
            try:
                return _Driver(schedule, manifest, crew, progress).run()
            finally:
                crew.dismiss()
        finally:
            if ours:
                ray.shutdown()


def _connect(address: str | None) -> None:
    """Join a cluster, or start one here."""
    try:
        host, colon, port = (address or "").rpartition(":")
        if colon and port.isdigit():
            # Ray itself tries for minutes.
            socket.create_connection((host, int(port)), timeout=10.0).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except OSError as error:
        raise NoCluster(
            f"expected a Ray cluster at --address {address}, got {error}; start one "
            "with `ray start --head`, or leave --address out for one on this machine"
        ) from error


class NoCluster(EntrometerError, ConnectionError):
    """No cluster where one was expected."""


class _Hand:
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
        return True

    def carry_out(self, work: Work) -> Row | None:
        """The row of a piece; None if another has made it meanwhile."""
        if work.path(self._store).exists():
            return None
        return carried_out(work, self._worker, self._store)


@dataclass
class _Member:
    actor: Any
    home: Hashable = None
    work: Work | None = None


class _Crew:
    """The actors: as many as the cluster holds, whoever dies is replaced."""

    def __init__(self, engine: OnRay, store: Path, worker: MakeWorker) -> None:
        self._engine, self._store, self._worker = engine, store, worker
        self._token = f".seen-{token_hex(8)}"
        (store / self._token).touch()
        made: Any = ray.remote(_Hand)
        self._class = made.options(num_cpus=engine.cpus, num_gpus=engine.gpus)
        self._coming: dict[Any, Any] = {}
        self.idle: list[_Member] = []
        self.busy: dict[Any, _Member] = {}
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
        if now - self._looked > _LOOK:
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
        except _DEAD as error:
            # An actor that cannot begin says why; one that was taken away does not.
            self._stillborn += 1
            if "creation task" in str(error) or self._stillborn > _STILLBORN:
                raise FailedWork(
                    f"expected a worker to begin, got {_line(error)}; mend the cause, "
                    "then go on with --resume"
                ) from error
            return True
        self._stillborn = 0
        self.idle.append(_Member(actor))
        return True

    def hand(self, member: _Member, work: Work) -> None:
        """Give an idle member a piece."""
        member.work, member.home = work, work.home
        self.busy[member.actor.carry_out.remote(work)] = member

    def dismiss(self) -> None:
        """Let all of them go."""
        members = [*self.idle, *self.busy.values()]
        for actor in [*self._coming.values(), *(m.actor for m in members)]:
            ray.kill(actor)
        (self._store / self._token).unlink(missing_ok=True)

    def _holds(self) -> int:
        held: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        asked = {"CPU": self._engine.cpus, "GPU": self._engine.gpus}
        return min(int(held.get(k, 0) / n) for k, n in asked.items() if n)


@dataclass
class _Driver:
    """Hands out, takes back, and keeps the books."""

    schedule: Schedule
    manifest: Manifest
    crew: _Crew
    progress: Progress
    rows: list[Row] = field(default_factory=list)
    cost: float = 0.0
    tokens: int = 0

    def run(self) -> list[Row]:
        self._began = time.perf_counter()
        self._total = self.schedule.cost
        while self.schedule.ready or self.crew.busy:
            self.crew.grow(self.schedule.ready + len(self.crew.busy))
            while self.crew.idle and self.schedule.ready:
                member = self.crew.idle.pop()
                work = self.schedule.take(member.home)
                assert work is not None
                self.crew.hand(member, work)
            awaited = self.crew.awaited
            if not awaited:
                self._tell("waits for a node")
                time.sleep(_LOOK)
                continue
            done, _ = ray.wait(awaited, num_returns=1, timeout=_LOOK)
            for ref in done:
                if not self.crew.arrived(ref):
                    self._take_back(ref)
        if self.schedule.failed:
            raise self._failed()
        return self.rows

    def _take_back(self, ref: Any) -> None:
        member = self.crew.busy.pop(ref)
        work, member.work = member.work, None
        assert work is not None
        try:
            row = ray.get(ref)
        except _DEAD as error:
            self.schedule.lose(work, f"its worker died: {_line(error)}")
            self._tell(f"a worker died at {work.kind}")
            return
        except exceptions.RayTaskError as error:
            self.crew.idle.append(member)
            cause = error.cause
            if isinstance(cause, StoreTrouble):
                raise StoreTrouble(*cause.args) from error
            self.schedule.fail(work, _line(cause))
            self._tell(f"{work.kind} failed: {_line(cause)}")
            if len(self.schedule.failed) > _MOST_FAILED:
                raise self._failed() from error
            return
        self.crew.idle.append(member)
        self.schedule.done(work)
        self.cost += work.cost
        if row is not None:
            self.manifest.add(row)
            self.rows.append(row)
            self.tokens += row.tokens
        self._tell(work.kind)

    def _tell(self, note: str) -> None:
        self.progress(
            Status(
                done=self.cost,
                total=self._total,
                left=self.schedule.left,
                tokens=self.tokens,
                seconds=time.perf_counter() - self._began,
                workers=self.crew.workers,
                retries=self.schedule.retries,
                note=note,
            )
        )

    def _failed(self) -> FailedWork:
        failed = self.schedule.failed
        told = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        return FailedWork(
            f"expected every piece of work to succeed, got {len(failed)} that failed "
            f"however often tried ({told}), and {self.schedule.blocked()} that wait "
            "for them; the rest is done and kept: mend the cause, then go on with "
            "--resume"
        )


def _line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    last = text.splitlines()[-1]
    return f"{type(error).__name__}: {last[:300]}"
