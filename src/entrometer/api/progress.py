"""Progress output: bars on a terminal, plain lines elsewhere, never long silence."""

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from entrometer.text import clock, plain

if TYPE_CHECKING:
    from rich.progress import TaskID

    from entrometer.engine import Status

_SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "rewards/answer/mean": "answer",
    "entropy/token": "entropy",
    "frac_reward_zero_std": "no signal",
}
_PLAIN_SECONDS = 10.0
"""Seconds between two plain lines."""
_SOON = 1.5
"""Seconds before the first line."""


class Ticker:
    """Shows how much of a long run is done, its rate and the time left."""

    def __init__(self, log: Path | None = None) -> None:
        """Write to standard error, and to a log file if one is given."""
        self.log = log
        self._bars = _Bars() if sys.stderr.isatty() else None
        self._began: dict[str, tuple[float, float]] = {}
        self._done: dict[str, int] = {}
        self._last = 0.0
        self._line, self._said = "", ""
        self._since = 0.0
        """When the last line was new, which the heartbeat prints again."""
        self._stop = threading.Event()

    def __enter__(self) -> "Ticker":
        if self._bars is None:
            threading.Thread(target=self._heartbeat, daemon=True).start()
        else:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """Show no more, before results are printed."""
        self._stop.set()
        if self._bars is not None:
            self._bars.stop()

    def begin(self, what: str) -> None:
        """Show that work begins, unless a mistake ends it at once."""
        # The heartbeat prints the line soon: a mistake is then a single line.
        self._line = plain(what)
        self._last = time.monotonic() - _PLAIN_SECONDS + _SOON
        if self._bars is not None:
            self._bars.show(self._line, 0.0, None, "")

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
        if self._bars is not None:
            for name, (finished, count) in status.stages.items():
                self._bars.show(f"  {name}", finished, count, f"{finished}/{count}")
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
        text = f"{shown}: {note}" if note else shown
        if self._bars is not None:
            self._bars.show(stage, done, total, plain(text))
        rate = (done - before) / (now - began) if now > began else 0.0
        left = f", {clock((total - done) / rate)} left" if rate else ""
        self._line = plain(f"{stage} {shown}{left}" + (f": {note}" if note else ""))
        if due:
            self._print(now)
            self._write(self._line)

    def _print(self, now: float) -> None:
        self._last = now
        again = self._line == self._said
        if not again:
            self._said, self._since = self._line, now
        if self._bars is None:
            still = f" (for {clock(now - self._since)})" if again else ""
            print(f"{self._line}{still}", file=sys.stderr, flush=True)

    def _heartbeat(self) -> None:
        # One pass over a large model can take minutes: say again where the run is. Not
        # in the log, which is sealed with the results.
        while not self._stop.wait(1.0):
            now = time.monotonic()
            if self._line and now - self._last >= _PLAIN_SECONDS:
                self._print(now)

    def _write(self, line: str) -> None:
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(f"{stamp} {line}\n")


class _Bars:
    """A bar for the whole work and one for each stage, with rate and time left."""

    def __init__(self) -> None:
        # Imported here: `--help` and runs without a terminal do without it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        # Texts of models and files are shown as they are, not as markup.
        columns: list[Any] = [
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        ]
        # Results go to standard output as they are, even while bars are shown.
        self._progress: Progress = Progress(
            *columns, console=Console(stderr=True), redirect_stdout=False
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def show(self, name: str, done: float, total: float | None, text: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, text="")
        task = self._tasks[name]
        self._progress.update(task, completed=done, total=total, text=text)
