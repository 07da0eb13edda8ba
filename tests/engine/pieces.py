"""Pieces of work without a model: each writes what it read, and who it is."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from entrometer.runs import atomic_write


@dataclass(frozen=True, eq=False)
class Piece:
    name: str
    needs: tuple["Piece", ...] = ()
    cost: float = 1.0
    required_model: str = "required_model"
    kind: str = "piece"
    fault: str = ""
    """`always` raises; `once` raises the first time; `kill` kills its process once;
    `killer` always does; `disk` cannot write."""

    seconds: float = 0.0
    pieces: tuple["Piece", ...] = ()
    part_of: str = ""
    marks: str = ""
    """Where it leaves a mark each time that it is begun."""

    def path(self, store: Path) -> Path:
        return store / f"{self.name}.txt"

    def tokens(self, store: Path) -> int:
        return 10

    def run(self, worker) -> None:
        begun = self._mark()
        time.sleep(self.seconds)
        if self.fault == "always" or (self.fault == "once" and begun == 1):
            raise RuntimeError(f"{self.name} does not want to")
        if self.fault == "killer" or (self.fault == "kill" and begun == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "disk":
            raise OSError(28, "No space left on device")
        read = [need.path(worker.store).read_text() for need in self.needs]
        with atomic_write(self.path(worker.store)) as file:
            file.write(f"{self.name}({','.join(read)})".encode())

    def _mark(self) -> int:
        if not self.marks:
            return 1
        with open(Path(self.marks) / self.name, "a") as file:
            file.write(".")
        return (Path(self.marks) / self.name).stat().st_size


class Hand:
    """What a piece is given."""

    def __init__(self, store: Path) -> None:
        self.store = store
