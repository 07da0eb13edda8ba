"""An engine with one worker in this process."""

import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar

from entrometer.engine.manifest import Manifest, result_sha256, store_trouble
from entrometer.engine.schedule import name_of
from entrometer.engine.work import MakeWorker, Progress, Row, Status, Work, Works

# Random, not the host name: stores are shared, and names of machines are private.
_PROCESS = token_hex(4)


class LocalEngine:
    """Runs requests in the order they are given; the first error ends the run."""

    run_one: ClassVar[Callable[..., None] | None] = None
    """How a request is run with a worker and a store, if not just here."""

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Run the requests that the store lacks; return their log rows."""
        manifest = Manifest(store)
        named = {name_of(work): work for work in works}
        wanted = [work for name, work in named.items() if name not in manifest]
        total, done = sum((work.cost for work in wanted), start=0.0), 0.0
        local_worker, rows, tokens = worker(store), [], 0
        began = time.perf_counter()
        for number, work in enumerate(wanted, 1):
            row = run_timed(work, local_worker, store, self.run_one)
            # Logged one by one, so that a stopped run can be resumed with its hashes.
            manifest.add(row)
            manifest.remove(work.pieces)
            rows.append(row)
            done, tokens = done + work.cost, tokens + row.tokens
            left, seconds = len(wanted) - number, time.perf_counter() - began
            progress(Status(done, total, left, tokens, seconds, note=work.kind))
        return rows


def run_timed(
    work: Work,
    worker: Any,
    store: Path,
    run: Callable[[Work, Any, Path], None] | None = None,
) -> Row:
    """Run a request, by `run` if given; return its log row.

    Raises `StoreTrouble` if the store is full or not writable.
    """
    began = time.perf_counter()
    if run is None:
        with store_trouble(store):
            work.run(worker)
    else:
        run(work, worker, store)
    return Row(
        name=name_of(work),
        kind=work.kind,
        tokens=work.tokens(store),
        seconds=time.perf_counter() - began,
        where=_PROCESS,
        # Of the bytes as written, which a resume compares before it reuses them.
        sha256=result_sha256(work.path(store)),
        part_of=work.part_of,
    )
