"""Groups of processes that hold one model in shards and run every request together."""

import atexit
import ctypes
import os
import platform
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from entrometer.engine.first_error import FirstError
from entrometer.engine.local import LocalEngine
from entrometer.engine.manifest import store_trouble
from entrometer.engine.work import MakeWorker, Progress, Row, Work, Works
from entrometer.errors import InvalidValue
from entrometer.runs import leave_to_leader

Value = TypeVar("Value")

# A member may wait for as long as the leader plans or writes a report. One that ends
# closes its connections, which the others see at once.
_PATIENCE = timedelta(days=365)

_GRACE = 3.0
"""Seconds that a leader has to say what went wrong, once torchrun ends it."""

_M_MMAP_THRESHOLD, _LARGE_BLOCK = -3, 1 << 20
"""A setting of glibc's malloc, and the bytes of a block that is worth a system call."""


@dataclass
class Group:
    """A member's view of its group, which runs every request in all members at once.

    Passes use the default process group of torch.distributed. Messages have another,
    on gloo, so that they wait for as long as it takes.
    """

    rank: int
    size: int
    store: Store
    """Where the first error of a member is kept, for the leader to report."""

    messages: dist.ProcessGroup
    broken: bool = False
    """Whether a member failed: the others may wait for it inside a pass."""

    @property
    def leader(self) -> bool:
        """Whether this process writes the results."""
        return self.rank == 0

    def send(self, message: object) -> None:
        """Send a message from the leader to all other members."""
        with self._naming_the_cause():
            self._broadcast(message)

    def receive(self) -> Any:
        """Return the leader's next message."""
        with self._naming_the_cause():
            return self._broadcast(None)

    def from_leader(self, function: Callable[[], Value]) -> Value:
        """Call a function in the leader alone, and return its result in all members."""
        with self._naming_the_cause():
            value: Value = self._broadcast(function() if self.leader else None)
        return value

    def make(self, worker: MakeWorker, store: Path) -> Any:
        """Return this member's worker."""
        with self._naming_the_cause():
            return worker(store)

    def run(self, work: Work, worker: Any, store: Path) -> None:
        """Run a request in this member; return once all members have run it."""
        with self._naming_the_cause():
            own = nullcontext() if self.leader else leave_to_leader()
            with store_trouble(store), own:
                work.run(worker)
            # Before the result is hashed and logged: members may write files too.
            dist.barrier(self.messages)

    def end(self) -> None:
        """Let the other members end, and leave the group."""
        global _current
        _current = None
        if self.broken:
            # The others wait for no message, and a normal exit of this process may wait
            # for communication that never ends.
            atexit.register(_exit_at_once)
            return
        if self.leader:
            self.send(None)
        dist.destroy_process_group()

    def _broadcast(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.messages)
        return box[0]

    @contextmanager
    def _naming_the_cause(self) -> Iterator[None]:
        """Raise the error that came first in any member, not one that followed it."""
        try:
            yield
        except Exception as error:
            self.broken = True
            cause = FirstError(self.store, self.rank, self.size).cause(error)
            if cause is error:
                raise
            raise cause from error
        except BaseException:
            self.broken = True
            raise


_current: Group | None = None


def from_leader(function: Callable[[], Value]) -> Value:
    """Call a function in the leader alone, and return its result in all members.

    Without a group, call it here. For what differs from process to process: the time, a
    server's answer.
    """
    return function() if _current is None else _current.from_leader(function)


def join(rank: int, size: int, store: Store, *, local_rank: int) -> Group:
    """Join a group of `size` processes that meet in a store; wait for all of them.

    Tensors on CUDA devices are sent by NCCL, others by gloo. The process computes on
    the device numbered `local_rank`, or on the only one that it sees.
    """
    global _current
    if dist.is_initialized():
        raise InvalidValue(
            "expected a process without a torch.distributed process group, got one "
            "with it; leave out init_process_group"
        )
    backend = "gloo"
    if torch.cuda.is_available() and dist.is_nccl_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
    _return_freed_blocks()
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    messages = dist.new_group(backend="gloo", timeout=_PATIENCE)
    _current = Group(rank, size, store, messages)
    return _current


def _return_freed_blocks() -> None:
    """Let the system have back every large block of memory as soon as it is freed."""
    # Layers are gathered and freed in turn. glibc would keep the blocks for later, in
    # pieces that the next ones do not fit, and hold more than all weights in the end.
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def torchrun_group() -> Group | None:
    """Join the group of this process's torchrun; None without it or with one process.

    torchrun describes the group in the environment: RANK, WORLD_SIZE, LOCAL_RANK.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if not all(name in os.environ for name in names) or os.environ["WORLD_SIZE"] == "1":
        return None
    store, rank, size = next(rendezvous("env://"))
    if rank == 0 and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end_soon)
    return join(rank, size, store, local_rank=int(os.environ["LOCAL_RANK"]))


def _end_soon(*_: object) -> None:
    # Torchrun ends the leader as soon as another member fails. The error that names the
    # cause arrives at about the same time, and must still be printed.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    timer = threading.Timer(_GRACE, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()


def _exit_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)


def join_on_this_node(file: str, rank: int, size: int) -> Group:
    """Join a group of `size` processes of this machine, which meet in a file."""
    # Neither gloo nor NCCL asks who connects, so other machines must not reach them.
    names = [name for _, name in socket.if_nameindex()]
    loopback = next((name for name in ("lo", "lo0") if name in names), None)
    if loopback is not None:
        for setting in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(setting, loopback)
    return join(rank, size, FileStore(file, size), local_rank=rank)


def serve(group: Group, worker: MakeWorker) -> None:
    """Run what the leader's `GroupEngine` asks for, until the leader ends the group.

    The process exits if a request fails in any member: members that wait in a pass for
    one that failed see only that it is gone.
    """
    try:
        held, store = None, Path()
        while (message := group.receive()) is not None:
            if isinstance(message, Path):
                # Released first: two models need not fit in memory.
                held, store = None, message
                held = group.make(worker, store)
            else:
                group.run(message, held, store)
    except BaseException:
        # At once: a normal exit may wait for communication that never ends.
        os._exit(1)
    group.end()


class GroupEngine(LocalEngine):
    """Runs requests in order, each in all members of a group; used by the leader."""

    def __init__(self, group: Group) -> None:
        """Lead the other members of the group, which call `serve`."""
        self.group = group

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Run the requests that the store lacks; return their log rows."""

        def in_all_members(store: Path) -> Any:
            # Absolute: other members may be in another directory.
            self.group.send(store.resolve())
            return worker(store)

        return super().run(works, worker=in_all_members, store=store, progress=progress)

    def run_one(self, work: Work, worker: Any, store: Path) -> None:
        """Run a request in all members; return once all of them have."""
        self.group.send(work)
        self.group.run(work, worker, store)
