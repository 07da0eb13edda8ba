"""The engine that needs nothing: one worker in this process."""

import time
from pathlib import Path
from secrets import token_hex
from typing import Any

from entrometer.engine.manifest import Manifest, result_sha256, store_trouble
from entrometer.engine.schedule import name_of
from entrometer.engine.work import MakeWorker, Progress, Row, Status, Work, Works

_PROCESS = token_hex(4)
"""Tells this process from others, without the name of the machine."""


class LocalEngine:
    """Carries work out in the order in which it is asked for.

    The first error ends it: whoever is at the machine wants to know at once, and goes
    on from there.
    """

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """One piece after another."""
        manifest = Manifest(store)
        named = {name_of(work): work for work in works}
        wanted = [work for name, work in named.items() if name not in manifest]
        total, done = sum((work.cost for work in wanted), start=0.0), 0.0
        hand, rows, tokens = worker(store), [], 0
        began = time.perf_counter()
        for number, work in enumerate(wanted, 1):
            row = run_timed(work, hand, store)
            manifest.add(row)
            rows.append(row)
            done, tokens = done + work.cost, tokens + row.tokens
            progress(
                Status(
                    done=done,
                    total=total,
                    left=len(wanted) - number,
                    tokens=tokens,
                    seconds=time.perf_counter() - began,
                    note=work.kind,
                )
            )
        return rows


def run_timed(work: Work, worker: Any, store: Path) -> Row:
    """Carry out a piece, and tell what it took."""
    began = time.perf_counter()
    with store_trouble(store):
        work.run(worker)
    return Row(
        name=name_of(work),
        kind=work.kind,
        tokens=work.tokens(store),
        seconds=time.perf_counter() - began,
        where=_PROCESS,
        sha256=result_sha256(work.path(store)),
    )
