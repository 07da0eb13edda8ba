"""Progress for people: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping
from types import TracebackType

from entrometer.cli.output import clock, plain

_SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "rewards/answer/mean": "answer",
    "entropy/token": "entropy",
    "frac_reward_zero_std": "no signal",
}
_PLAIN_SECONDS = 10.0


class Ticker:
    """Tells how far long work has come, its rate and the time left."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began: dict[str, tuple[float, float]] = {}
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

    def work(self, stage: str, done: float, total: float, note: str) -> None:
        """Show a share of work that is not counted in pieces."""
        self._show(stage, done, total, f"{done / total:.0%}" if total else "", note)

    def tick(self, stage: str, done: int, total: int, note: str) -> None:
        """Show that `done` of `total` are done."""
        self._show(stage, float(done), float(total), f"{done}/{total}", note)

    def _show(
        self, stage: str, done: float, total: float, told: str, note: str
    ) -> None:
        now = time.monotonic()
        # What was done before the first call, as after a restart, tells no rate.
        began, before = self._began.setdefault(stage, (now, done))
        if not self._terminal and done < total and now - self._last < _PLAIN_SECONDS:
            return
        self._last = now
        rate = (done - before) / (now - began) if now > began else 0.0
        left = f", {clock((total - done) / rate)} left" if rate else ""
        line = plain(f"{stage} {told}{left}" + (f": {note}" if note else ""))
        if self._terminal:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
