"""Carries requests out, those that the store has not."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from entrometer.engine import Engine, Manifest, Progress, Status
from entrometer.engine.schedule import name_of
from entrometer.experiments.requests import Request
from entrometer.experiments.requests.divided import with_pieces
from entrometer.experiments.requests.make_worker import MakeWorker

logger = logging.getLogger(__name__)

Stages = dict[str, dict[str, float | int]]
"""Passes and seconds by kind."""


def carry_out(
    requests: Iterable[Request],
    store: Path,
    progress: Progress,
    engine: Engine,
    *,
    ahead: float = 0.0,
    behind: float = 0.0,
    stages: Stages | None = None,
) -> Stages:
    """Carry out what is missing; the passes and seconds of each kind.

    Args:
        requests: What is asked for, each after what it depends on.
        store: Where results are kept.
        progress: Called after each pass.
        engine: Where they are carried out.
        ahead: Work that follows, which progress counts in.
        behind: Work that was done before, likewise.
        stages: Passes and seconds of that, which these are added to.
    """

    def tell(status: Status) -> None:
        done, total = behind + status.done, behind + status.total + ahead
        progress(replace(status, done=done, total=total))

    requests = list(requests)
    works = missing(requests, store)
    have = Manifest(store)
    reused = [name for name in map(name_of, requests) if name in have]
    for note in have.notes(reused, map(name_of, works)):
        logger.warning("%s", note)
    rows = engine.carry_out(
        works,
        worker=MakeWorker.with_registered(),
        store=store,
        progress=tell,
    )
    stages = stages or {}
    for row in rows:
        stage = stages.setdefault(row.kind, {"passes": 0, "seconds": 0.0})
        stage["passes"] += 1
        stage["seconds"] += row.seconds
    return stages


def missing(requests: Iterable[Request], store: Path) -> list[Request]:
    """What the store has not, each once, with the pieces that make it up."""
    have = Manifest(store)
    found: dict[str, Request] = {}
    for request in requests:
        name = name_of(request)
        if name in found:
            continue
        if name in have:
            have.require_whole(name)
            continue
        for piece in with_pieces(request):
            if name_of(piece) in have:
                have.require_whole(name_of(piece))
            else:
                found.setdefault(name_of(piece), piece)
    return list(found.values())


def work_left(requests: Iterable[Request], store: Path) -> float:
    """What carrying them out would cost, in plain forwards of a response."""
    return sum((request.cost for request in missing(requests, store)), start=0.0)
