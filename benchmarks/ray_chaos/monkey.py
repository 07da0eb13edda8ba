"""A cluster of several nodes in this machine, and somebody who kills its parts."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

# Before Ray is loaded: its workers would step back behind everything else.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

from ray.cluster_utils import Cluster

from entrometer.engine import read_log

NODES = 2
PATIENCE = 600.0
"""Seconds after which a run hangs."""

Kill = tuple[int, str]
"""Once so many passes are logged, and of what."""


class Monkey:
    """Drives work to its end, whatever it kills meanwhile."""

    KINDS: ClassVar[tuple[str, ...]] = ("worker", "node", "driver")

    def __init__(self, trained: Path, shards: int) -> None:
        self._trained = trained
        self._shards = shards
        self._draw = random.Random(1)
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> "Monkey":
        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0}
        )
        self._nodes = [self._cluster.add_node(num_cpus=2) for _ in range(NODES)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cluster.shutdown()

    def drive(self, store: Path, kills: list[Kill]) -> None:
        """Carry out all work, with kills at these moments."""
        began = time.perf_counter()
        self._child = self._start(store)
        left = list(kills)
        while self._child.poll() is None:
            assert time.perf_counter() - began < PATIENCE, f"{store} hangs"
            due = left and len(read_log(store)) >= left[0][0]
            if due and self._kill(left[0][1], store):
                _, kind = left.pop(0)
                self.killed[kind] += 1
            time.sleep(0.05)
        _, told = self._child.communicate()
        assert self._child.returncode == 0, told

    def _start(self, store: Path) -> subprocess.Popen[str]:
        module = "benchmarks.ray_chaos.driver"
        return subprocess.Popen(
            [
                *(sys.executable, "-m", module),
                *(self._cluster.address, str(self._trained), str(store)),
                str(self._shards),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _kill(self, kind: str, store: Path) -> bool:
        """Whether there was one to kill."""
        if kind == "driver":
            self._child.kill()
            self._child.communicate()
            self._child = self._start(store)
            return True
        if kind == "node":
            node = self._nodes.pop(self._draw.randrange(len(self._nodes)))
            self._cluster.remove_node(node, allow_graceful=False)
            self._nodes.append(self._cluster.add_node(num_cpus=2))
            return True
        lines = Path("/proc").glob("[0-9]*/cmdline")
        hands = [int(line.parent.name) for line in lines if _is_hand(line)]
        if hands:
            os.kill(self._draw.choice(hands), signal.SIGKILL)
        return bool(hands)


def _is_hand(command_line: Path) -> bool:
    try:
        return b"ray::RemoteWorker" in command_line.read_bytes()
    except OSError:
        return False
