"""Functions that run in all processes of a new group, which meet in a file."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def in_group(
    folder: Path, size: int, function: Callable[..., Any], *arguments: Any
) -> list[Any]:
    """Call a function of a module in `size` processes; return what each returns."""
    meeting = str(folder / f"meeting-{size}-{function.__name__}")
    call = partial(_member, meeting, size, function, arguments)
    # Calls wait for one another, so that no process takes two.
    with ProcessPoolExecutor(size, get_context("spawn")) as pool:
        return list(pool.map(call, range(size)))


def _member(
    meeting: str,
    size: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    rank: int,
) -> Any:
    # Imported late: the package need not be imported by whoever only starts a group.
    from entrometer.engine.group import join_on_this_node

    torch.set_num_threads(1)
    join_on_this_node(meeting, rank, size)
    try:
        return function(*arguments)
    finally:
        dist.destroy_process_group()
