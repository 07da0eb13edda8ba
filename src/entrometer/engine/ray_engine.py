"""The engine on a Ray cluster: a worker an actor, a model a worker."""

import logging
import math
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray import exceptions

from entrometer.engine.actor_pool import DEAD, LOOK, ActorPool, one_line
from entrometer.engine.manifest import Manifest, store_trouble
from entrometer.engine.own_cluster import own_cluster
from entrometer.engine.schedule import Schedule
from entrometer.engine.work import (
    FailedWork,
    MakeWorker,
    Progress,
    Row,
    Status,
    StoreTrouble,
    Works,
)
from entrometer.errors import EntrometerError, InvalidValue

_MOST_FAILED = 8
"""Pieces that are given up before all is: then it is not the pieces."""


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Carries work out on the nodes of a cluster that see the store.

    Nodes may come and go. A worker that dies loses the piece that it was at, which
    another begins again; whatever happens, a piece is in the store once, and whole.
    """

    address: str | None = None
    """Address of a cluster; None starts one that only this machine can reach."""

    workers: int = 0
    """At most so many at a time; 0 for as many as the cluster holds."""

    cpus: float = 1.0
    gpus: float = 0.0
    """What a worker takes of a node."""

    def __post_init__(self) -> None:
        """Refuse what no cluster could hold."""
        taken = (self.cpus, self.gpus)
        if self.workers < 0 or min(taken) < 0 or not 0 < sum(taken) < math.inf:
            raise InvalidValue(
                "expected workers from 0, and of a worker's cores and GPUs none below "
                f"0 and one above, got {self.workers}, {self.cpus} and {self.gpus}; "
                "change --workers, --worker-cpus or --worker-gpus"
            )

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Hand out the longest first, and begin again what is lost."""
        manifest = Manifest(store)
        schedule = Schedule(works, manifest)
        if not schedule.pieces:
            return []
        with _cluster(self.address):
            with store_trouble(store):
                crew = ActorPool(self, store.resolve(), worker)
            try:
                return _Driver(schedule, manifest, crew, progress).run()
            finally:
                crew.dismiss()


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Use the cluster that this process is in, join one, or start one."""
    if ray.is_initialized():
        yield
    elif address is None:
        with own_cluster():
            yield
    else:
        _connect(address)
        try:
            yield
        finally:
            ray.shutdown()


def _connect(address: str) -> None:
    """Join a cluster, whose settings are its own."""
    try:
        host, colon, port = address.rpartition(":")
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


@dataclass
class _Driver:
    """Hands out, takes back, and keeps the books."""

    schedule: Schedule
    manifest: Manifest
    crew: ActorPool
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
                work = self.schedule.take(member.required_model)
                assert work is not None
                self.crew.hand(member, work)
            awaited = self.crew.awaited
            if not awaited:
                time.sleep(LOOK)
            done = awaited and ray.wait(awaited, num_returns=1, timeout=LOOK)[0]
            if not done and not self.crew.workers:
                asked = (f"{n:g} {name}" for name, n in self.crew.asked.items())
                what = "worker" if awaited else "node"
                self._tell(f"waits for a {what} of {' and '.join(asked)}")
            for ref in done:
                if not self.crew.arrived(ref):
                    self._take_back(ref)
        if self.schedule.failed:
            raise self._failed(
                f"{self.schedule.blocked()} that wait for them are left; the rest is "
                "done and kept"
            )
        return self.rows

    def _take_back(self, ref: Any) -> None:
        member = self.crew.busy.pop(ref)
        work, member.work = member.work, None
        assert work is not None
        try:
            row = ray.get(ref)
        except DEAD as error:
            self.schedule.lose(work, f"its worker died: {one_line(error)}")
            self._tell(f"a worker died at {work.kind}")
            return
        except exceptions.RayTaskError as error:
            self.crew.idle.append(member)
            cause = error.cause
            if isinstance(cause, StoreTrouble):
                raise StoreTrouble(*cause.args) from error
            self.schedule.fail(work, one_line(cause))
            self._tell(f"{work.kind} failed: {one_line(cause)}")
            if len(self.schedule.failed) > _MOST_FAILED:
                left = self.schedule.left - len(self.schedule.failed)
                raise self._failed(
                    f"that is too many for it to be theirs, so {left} more were not "
                    "waited for; what is done is kept"
                ) from error
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

    def _failed(self, rest: str) -> FailedWork:
        failed = self.schedule.failed
        told = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        return FailedWork(
            f"expected every piece of work to succeed, got {len(failed)} that failed "
            f"however often tried ({told}); {rest}: mend the cause, then go on with "
            "--resume"
        )
