"""Functions that run in all processes of a new group, which meet in a file."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.utils import checkpoint

from entrometer.engine.group import join_on_this_node
from entrometer.policy import recomputation
from tests.second_device import SecondDevice, placed


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
    torch.set_num_threads(1)
    join_on_this_node(meeting, rank, size)
    try:
        return function(*arguments)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def second_device_of_a_group() -> Iterator[None]:
    """`SecondDevice` for a process of a group, whose FSDP has no streams to order.

    Backward passes do not see what Python asks of a device. What FSDP allocates there
    and layers that are computed again are told of it here.
    """
    with pytest.MonkeyPatch.context() as patched, SecondDevice() as device:
        names = {name: getattr(torch.cpu, name) for name in dir(torch.cpu)}
        handle = SimpleNamespace(**names | {"current_device": lambda: 0})
        for name, module in list(sys.modules.items()):
            ours = name.startswith("torch.distributed")
            if ours and hasattr(module, "_get_device_handle"):
                patched.setattr(module, "_get_device_handle", lambda *_: handle)

        def allocate(_: Any, size: Any, *, dtype: Any, device: torch.device) -> Any:
            return placed(torch.empty(*size, dtype=dtype), device)

        patched.setattr(_fsdp_collectives.DefaultAllocMixin, "allocate", allocate)
        again = recomputation._again

        def seen(*inputs: Any, **named: Any) -> Any:
            with device.functions():
                return again(*inputs, **named)

        patched.setattr(recomputation, "_again", seen)
        patched.setattr(torch.cuda, "current_device", lambda: 0)
        checks = checkpoint._allowed_determinism_checks_to_fns
        patched.setitem(checks, "default", lambda x: x.shape)
        yield
