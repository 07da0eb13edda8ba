"""An engine on a Ray cluster: one model per worker, one or several actors each."""

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

from entrometer.engine.actor_pool import DEAD, LOOK, Actor, ActorPool
from entrometer.engine.by_value import pickled_by_value
from entrometer.engine.first_error import LostMember
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
    Work,
    Works,
    one_line,
)
from entrometer.errors import EntrometerError, InvalidValue

_MOST_FAILED = 8
"""Stop after more failed requests than this: the cause is then systemic."""


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Runs requests on a Ray cluster, all of whose nodes mount the store.

    Nodes may come and go: if a worker dies, another runs its request again. A result is
    in the store once, and complete.
    """

    address: str | None = None
    """Address of a cluster; None starts one that only this machine can reach."""

    workers: int = 0
    """Most workers at a time; 0 for as many as the cluster has room for."""

    cpus: float = 1.0
    gpus: float = 0.0
    """Cores and GPUs per worker, or per shard of its model."""

    shards: int = 1
    """Number of actors of a worker, which hold a model together on one node."""

    def __post_init__(self) -> None:
        """Raise for workers that no cluster could have."""
        taken = (self.cpus, self.gpus)
        if self.workers < 0 or min(taken) < 0 or not 0 < sum(taken) < math.inf:
            raise InvalidValue(
                "expected workers of at least 0, and cores and GPUs per worker of at "
                "least 0 with a sum above 0, got "
                f"{self.workers}, {self.cpus} and {self.gpus}; "
                "change --workers, --worker-cpus or --worker-gpus"
            )
        if self.shards < 1:
            raise InvalidValue(
                f"expected at least 1 shard of a model, got {self.shards}; change "
                "--model-shards"
            )

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Run the requests that the store lacks; return their log rows."""
        manifest = Manifest(store)
        schedule = Schedule(works, manifest)
        if not schedule.count:
            return []
        # Requests of a user's experiment are pickled with their code as well.
        modules = getattr(worker, "modules", ())
        with _cluster(self.address), pickled_by_value(modules):
            with store_trouble(store):
                # Absolute: actors start in another directory.
                pool = ActorPool(self, store.resolve(), worker)
            try:
                return _Driver(schedule, manifest, pool, progress).run()
            finally:
                pool.dismiss()


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
    try:
        host, colon, port = address.rpartition(":")
        if colon and port.isdigit():
            # Ray itself retries for minutes before it reports a closed port.
            socket.create_connection((host, int(port)), timeout=10.0).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except OSError as error:
        raise NoCluster(
            f"expected a Ray cluster at --address {address}, got {error}; start one "
            "with `ray start --head`, or leave --address out for one on this machine"
        ) from error


class NoCluster(EntrometerError, ConnectionError):
    """No Ray cluster answers at an address."""


@dataclass
class _Driver:
    """Gives requests to actors, and logs their results."""

    schedule: Schedule
    manifest: Manifest
    pool: ActorPool
    progress: Progress
    rows: list[Row] = field(default_factory=list)
    cost: float = 0.0
    tokens: int = 0

    def run(self) -> list[Row]:
        self._began, self._total = time.perf_counter(), self.schedule.cost
        while self.schedule.ready or self.pool.busy:
            self.pool.grow(self.schedule.ready + self.pool.running)
            while self.pool.idle and self.schedule.ready:
                actor = self.pool.idle.pop()
                work = self.schedule.take(actor.required_model)
                assert work is not None
                self.pool.start(actor, work)
            awaited = self.pool.awaited
            # `ray.wait` raises for an empty list. Its timeout lets `grow` see nodes.
            if not awaited:
                time.sleep(LOOK)
            done = awaited and ray.wait(awaited, num_returns=1, timeout=LOOK)[0]
            if not done and not self.pool.workers:
                size = (f"{n:g} {name}" for name, n in self.pool.resources.items())
                what = "worker" if awaited else "node"
                self._report(f"waits for a {what} of {' and '.join(size)}")
            for ref in done:
                if not self.pool.arrived(ref):
                    self._take_back(ref)
        if self.schedule.failed:
            raise self._failed(
                f"{self.schedule.blocked()} that wait for them are left; all others "
                "are stored"
            )
        return self.rows

    def _take_back(self, ref: Any) -> None:
        actor = self.pool.busy[ref]
        work = actor.work
        assert work is not None
        try:
            row = ray.get(ref)
        except DEAD as error:
            self._lose(actor, error)
            return
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LostMember):
                self._lose(actor, cause)
                return
            self.pool.failed(actor)
            # Raised anew without Ray's traceback, so that the user reads the remedy. No
            # retry: the store is as full for every other request.
            if isinstance(cause, StoreTrouble):
                raise StoreTrouble(*cause.args) from error
            self.schedule.fail(work, one_line(cause))
            self._report(f"{work.kind} failed: {one_line(cause)}")
            if len(self.schedule.failed) > _MOST_FAILED:
                left = self.schedule.left - len(self.schedule.failed)
                raise self._failed(
                    f"too many for a fault of single requests, so {left} more were not "
                    "run; finished passes are stored"
                ) from error
            return
        # All members of a group run a request: it is done with the last of them.
        if self.pool.returned(actor, ref, row):
            self._done(work, actor.row)

    def _lose(self, actor: Actor, error: BaseException) -> None:
        work = actor.work
        assert work is not None
        # The worker is left out: `grow` starts another if there is room.
        self.pool.end(actor)
        self.schedule.lose(work, f"its worker died: {one_line(error)}")
        self._report(f"a worker died during {work.kind}")

    def _done(self, work: Work, row: Row | None) -> None:
        self.schedule.done(work)
        self.cost += work.cost
        # No row: another process made the result, and logged it.
        if row is not None:
            self.manifest.add(row)
            self.rows.append(row)
            self.tokens += row.tokens
        self.manifest.remove(work.pieces)
        self._report(work.kind)

    def _report(self, note: str) -> None:
        left, seconds = self.schedule.left, time.perf_counter() - self._began
        counts = left, self.tokens, seconds, self.pool.workers, self.schedule.retries
        self.progress(Status(self.cost, self._total, *counts, note))

    def _failed(self, rest: str) -> FailedWork:
        failed = self.schedule.failed
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        return FailedWork(
            f"expected every request to succeed, got {len(failed)} that failed in "
            f"every attempt ({reasons}); {rest}: fix the cause, then resume with "
            "--resume"
        )
