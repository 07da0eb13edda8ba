"""What a benchmark returns: figures, and the limits that they must hold."""

import json
import math
import platform
import select
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One figure and the range it must lie in."""

    name: str
    value: float
    at_most: float = math.inf
    at_least: float = -math.inf

    @property
    def holds(self) -> bool:
        """Whether the figure is in its range; NaN is in none."""
        return bool(self.at_least <= self.value <= self.at_most)

    def as_json(self) -> dict[str, Any]:
        limits = {"at_most": self.at_most, "at_least": self.at_least}
        finite = {name: x for name, x in limits.items() if math.isfinite(x)}
        value = float(self.value) if math.isfinite(self.value) else None
        return {"name": self.name, "value": value, **finite, "holds": self.holds}

    def __str__(self) -> str:
        below = f" <= {self.at_most:g}" if math.isfinite(self.at_most) else ""
        above = f"{self.at_least:g} <= " if math.isfinite(self.at_least) else ""
        mark = "ok  " if self.holds else "FAIL"
        return f"{mark} {self.name}: {above}{self.value:.6g}{below}"


def _finite(figures: Any) -> Any:
    """Return figures with null for what is not a number: the checks name it."""
    if isinstance(figures, dict):
        return {name: _finite(x) for name, x in figures.items()}
    if isinstance(figures, list | tuple):
        return [_finite(x) for x in figures]
    undefined = isinstance(figures, float) and not math.isfinite(figures)
    return None if undefined else figures


@dataclass(frozen=True)
class Report:
    """Checks, and figures that have no limit."""

    checks: list[Check]
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every figure is in its range, and there is at least one."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    def as_json(self, name: str, seconds: float) -> str:
        """One JSON object on one line."""
        return json.dumps(
            {
                "benchmark": name,
                "holds": self.holds,
                "checks": [check.as_json() for check in self.checks],
                "figures": _finite(self.figures),
                "seconds": round(seconds, 3),
                "python": platform.python_version(),
                "machine": platform.machine(),
                "versions": {p: metadata.version(p) for p in ("numpy", "torch")},
            },
            allow_nan=False,
        )


def resident_kib(process: int) -> dict[str, int]:
    """Resident memory of a process in KiB, anonymous and all; 0 if it has ended.

    Anonymous is what belongs to no file, so that the kernel cannot drop it.
    """
    names = {"RssAnon": "anonymous", "VmRSS": "all"}
    sizes = dict.fromkeys(names.values(), 0)
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name, _, size = line.partition(":")
            if name in names:
                sizes[names[name]] = int(size.split()[0])
    return sizes


def memory_growth(module: str, arguments: list[str]) -> dict[str, float]:
    """Run `python -m module`; return by how many MiB its memory grows at most.

    From the line `ready` that it prints to the line `done`, read every millisecond.
    """
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n", "the child failed"
        start = peak = resident_kib(child.pid)
        child.stdin.write(b"go\n")
        while not select.select([child.stdout], [], [], 0.001)[0]:
            now = resident_kib(child.pid)
            peak = {key: max(peak[key], now[key]) for key in peak}
        assert child.stdout.readline() == b"done\n", "the child failed"
    return {key: (peak[key] - start[key]) / 1024 for key in peak}


def worst(values: list[float]) -> float:
    """The largest, and NaN if any is NaN: a failed figure is not passed over."""
    return math.nan if any(map(math.isnan, values)) else max(values)
