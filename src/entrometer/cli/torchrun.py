"""Commands that torchrun starts in several processes, which hold a model in shards.

All processes parse the same command line. The one of rank 0 leads: it plans, prints and
writes the run. The others run their part of each pass and print nothing.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from entrometer.errors import InvalidValue

if TYPE_CHECKING:
    from entrometer.engine import Engine


_PAUSE = 5.0
"""Seconds that the leader has to say what is wrong, before another process does."""


def processes() -> int:
    """Return the number of processes that torchrun started; 1 without torchrun."""
    # Other launchers set some of these for purposes of their own; torchrun sets all.
    if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        return 1
    return int(os.environ["WORLD_SIZE"])


def follows() -> bool:
    """Return whether another process leads this one."""
    return processes() > 1 and os.environ["RANK"] != "0"


@contextmanager
def one_voice() -> Iterator[None]:
    """Print nothing in a process that another leads, unless the leader does not fail.

    A mistake in the command is every process's: the leader says it.
    """
    if not follows():
        yield
        return
    printing = sys.stdout, sys.stderr
    # Never closed: loggers may hold it.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        yield
    except Exception:
        # If the leader fails too, torchrun ends this process during the pause.
        time.sleep(_PAUSE)
        sys.stdout, sys.stderr = printing
        raise
    sys.stdout, sys.stderr = printing


def require_processes(
    shards: int, *, engine: str = "local", dry_run: bool = False
) -> None:
    """Raise `InvalidValue` unless there are as many processes as shards of the model.

    Ray starts its own, on `engine` "ray".
    """
    started = processes()
    if dry_run and shards > 1:
        raise InvalidValue(
            "expected --model-shards 1 for --dry-run, which times passes in one "
            f"process, got {shards}; leave out --model-shards for the estimate"
        )
    if engine == "ray":
        if started > 1:
            raise InvalidValue(
                "expected one process for --engine ray, which starts the others, got "
                f"{started} of torchrun; leave out torchrun or --engine ray"
            )
    elif shards != started == 1:
        raise InvalidValue(
            f"expected {shards} processes for --model-shards {shards}, got 1; start "
            f"the command with `torchrun --nproc-per-node {shards} -m -- "
            "entrometer.cli`, or add --engine ray"
        )
    elif shards != started:
        raise InvalidValue(
            f"expected --model-shards {started}, the number of torchrun's processes, "
            f"got {shards}; give --model-shards {started}, or start {shards}"
        )


def follow() -> int:
    """Run this process's part of each pass until the leader ends; return 0."""
    from entrometer.engine.group import serve, torchrun_group
    from entrometer.experiments.requests.make_worker import MakeWorker

    group = torchrun_group()
    assert group is not None
    serve(group, MakeWorker.with_registered())
    return 0


@contextmanager
def leading() -> "Iterator[Engine | None]":
    """Join the other processes of torchrun; the engine runs passes in all of them.

    Without torchrun, the engine is None.
    """
    if processes() == 1:
        yield None
        return
    from entrometer.engine.group import GroupEngine, torchrun_group

    group = torchrun_group()
    assert group is not None
    try:
        yield GroupEngine(group)
    finally:
        group.end()
