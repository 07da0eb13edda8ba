"""Progress output: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from entrometer.text import clock, plain

if TYPE_CHECKING:
    from entrometer.engine import Status

_SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "rewards/answer/mean": "answer",
    "entropy/token": "entropy",
    "frac_reward_zero_std": "no signal",
}
_PLAIN_SECONDS = 10.0


class Ticker:
    """Shows how much of a long run is done, its rate and the time left."""

    def __init__(self, log: Path | None = None) -> None:
        """Write to standard error, and to a log file if one is given."""
        self._log = log
        self._terminal = sys.stderr.isatty()
        self._began: dict[str, tuple[float, float]] = {}
        self._done: dict[str, int] = {}
        self._last = 0.0

    def __enter__(self) -> "Ticker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            print(file=sys.stderr)

    def training(
        self, stage: str, step: int, steps: int, metrics: Mapping[str, float]
    ) -> None:
        """Show a step of training."""
        shown = [
            f"{label} {float(metrics[name]):.3g}"
            for name, label in _SHOWN.items()
            if metrics.get(name) is not None
        ]
        self.tick(stage, step, steps, ", ".join(shown))

    def work(self, stage: str, status: "Status") -> None:
        """Show the share of an engine's work that is done, passes left and tokens/s."""
        done, total = status.done, status.total
        parts = [f"{done / total:.0%}" if total else "", f"{status.left} passes to go"]
        if status.seconds:
            parts.append(f"{status.tokens / status.seconds:.0f} tokens/s")
        if status.workers != 1 or status.retries:
            parts.append(f"{status.workers} workers")
        if status.retries:
            parts.append(f"{status.retries} retries")
        self._show(stage, done, total, ", ".join(filter(None, parts)), status.note)

    def tick(self, stage: str, done: int, total: int, note: str) -> None:
        """Show that `done` of a stage's `total` steps are done, with a note."""
        # A call without progress only carries a note, such as a file computed again.
        noted = self._done.get(stage, 0) == done
        self._done[stage] = done
        self._show(stage, float(done), float(total), f"{done}/{total}", note, noted)

    def _show(
        self,
        stage: str,
        done: float,
        total: float,
        shown: str,
        note: str,
        noted: bool = False,
    ) -> None:
        now = time.monotonic()
        # Work that an earlier process did says nothing about this process's rate.
        began, before = self._began.setdefault(stage, (now, done))
        due = done >= total or noted or now - self._last >= _PLAIN_SECONDS
        if not self._terminal and not due:
            return
        rate = (done - before) / (now - began) if now > began else 0.0
        left = f", {clock((total - done) / rate)} left" if rate else ""
        line = plain(f"{stage} {shown}{left}" + (f": {note}" if note else ""))
        if self._terminal:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
        if due:
            self._last = now
            self._write(line)

    def _write(self, line: str) -> None:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(f"{stamp} {line}\n")
