"""Work of a group without a model: adds up the ranks of all members."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from entrometer.runs import atomic_write


@dataclass(frozen=True, eq=False)
class Sum:
    name: str
    needs: tuple["Sum", ...] = ()
    fault: str = ""
    """`raise`, `kill` or `disk`, in the member `rank` while another waits for it."""

    rank: int = 1
    marks: str = ""
    """Where each member leaves a mark when it begins; the fault is of the first time,
    unless there are no marks."""

    cost: float = 1.0
    required_model: str = "model"
    kind: str = "sum"
    pieces: tuple["Sum", ...] = ()
    part_of: str = ""

    def path(self, store: Path) -> Path:
        return store / f"{self.name}.txt"

    def tokens(self, store: Path) -> int:
        return 10

    def run(self, worker) -> None:
        rank = dist.get_rank()
        begun = self._begun(rank)
        if self.fault and rank == self.rank and begun == 1:
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "disk":
                raise OSError(28, "No space left on device")
            raise ValueError(f"{self.name} is a bad row")
        total = torch.tensor([rank + 1])
        dist.all_reduce(total)
        for own in (False, True):
            name = f"{self.name}-{rank}" if own else self.name
            with atomic_write(worker.store / f"{name}.txt", own=own) as file:
                file.write(f"{int(total)} of {rank}".encode())

    def _begun(self, rank) -> int:
        if not self.marks:
            return 1
        path = Path(self.marks) / f"{self.name}-{rank}"
        with open(path, "a") as file:
            file.write(".")
        return path.stat().st_size


class Hand:
    def __init__(self, store: Path) -> None:
        self.store = store
