"""Work that never succeeds, a disk that is full, and one that is read-only."""

import subprocess
from pathlib import Path

from benchmarks.harness import Check
from benchmarks.ray_chaos.works import Broken, works
from entrometer.engine import FailedWork, LocalEngine, StoreTrouble, quiet
from entrometer.engine.ray_engine import RayEngine
from entrometer.engine.work import Engine
from entrometer.experiments.requests import Draw, Request, Worker
from entrometer.experiments.run import missing


def faults(root: Path, trained: Path) -> tuple[list[Check], dict[str, str]]:
    asked = works(trained)
    told: dict[str, str] = {}
    draw = next(r for r in asked if isinstance(r, Draw))
    store = root / "broken"
    store.mkdir()
    broken = Broken(subject=draw.subject, rollouts=draw)
    told["a pass that always fails"] = _end(
        RayEngine(workers=2), [*asked, broken], store
    )
    named = broken.path(store).name in told["a pass that always fails"]
    rest = sum(request.path(store).exists() for request in asked)
    checks = [
        Check("a pass that always fails is named", named, at_least=1),
        Check("of the other passes, done", rest / len(asked), at_least=1),
    ]
    for name, engine in (("here", LocalEngine()), ("ray", RayEngine(workers=2))):
        disk = root / f"disk-{name}"
        disk.mkdir()
        # A hundred and fifty thousand bytes hold a few results, and not all.
        _mount("-t", "tmpfs", "-o", "size=150k", "none", str(disk))
        try:
            full = _end(engine, asked, disk)
            some = sum(request.path(disk).exists() for request in asked)
            _mount("-o", "remount,ro", str(disk))
            closed = _end(engine, asked, disk)
            _mount("-o", "remount,rw,size=1g", str(disk))
            resumed = _end(engine, asked, disk)
            done = sum(request.path(disk).exists() for request in asked)
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        told |= {f"disk full, {name}": full, f"read-only, {name}": closed}
        checks += [
            Check(f"a full disk is named, {name}", "make room" in full, at_least=1),
            Check(f"results before that, {name}", some, at_least=1),
            Check(
                f"a read-only one is named, {name}",
                "make it writable" in closed,
                at_least=1,
            ),
            Check(
                f"all done once there is room, {name}",
                done / len(asked) if not resumed else 0,
                at_least=1,
            ),
        ]
    return checks, told


def _end(engine: Engine, asked: list[Request], store: Path) -> str:
    """What it says in the end; nothing if all went well."""
    try:
        engine.run(missing(asked, store), worker=Worker, store=store, progress=quiet)
    except (FailedWork, StoreTrouble) as error:
        return str(error)
    return ""


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
