"""How soon the package is there: importing it, and every `--help`; torch in none."""

import resource
import subprocess
import sys
import time
from statistics import median
from typing import NamedTuple

from benchmarks.harness import Check, Report
from entrometer.cli import VERBS

TRIES = 9

IMPORT, HELP = "import entrometer", "entrometer --help"
"""Their limits are on the clock; those of the verbs on processor time, which other
programs of a busy machine lengthen less."""

SOURCE = """import sys, runpy
sys.argv = ["entrometer", *{arguments!r}]
try: runpy.run_module("entrometer.cli", run_name="__main__")
except SystemExit as stop: assert not stop.code
"""
LOADED = "import sys; print('\\n', 'torch' in sys.modules, sep='', file=sys.stderr)"


class Start(NamedTuple):
    """What one fresh process took."""

    clock: float
    processor: float
    torch: bool
    """Whether it had imported torch when it was done."""


def run() -> Report:
    sources = {IMPORT: "import entrometer\n", HELP: _help()}
    sources |= {f"entrometer {verb} --help": _help(verb) for verb in VERBS}
    # By turns, so that a busy minute is not one command's alone; the first round fills
    # the caches.
    rounds = [
        {n: _start(code) for n, code in sources.items()} for _ in range(TRIES + 1)
    ]
    starts = {name: [one[name] for one in rounds[1:]] for name in sources}
    clock = {name: median(s.clock for s in own) for name, own in starts.items()}
    processor = {name: median(s.processor for s in own) for name, own in starts.items()}
    return Report(
        [
            Check(f"{IMPORT}, seconds", clock[IMPORT], at_most=0.3),
            Check(f"{HELP}, seconds", clock[HELP], at_most=1.0),
            *(
                Check(f"{name}, processor seconds", spent, at_most=1.0)
                for name, spent in processor.items()
                if name not in (IMPORT, HELP)
            ),
            Check(
                "processes that imported torch",
                sum(s.torch for own in starts.values() for s in own),
                at_most=0,
            ),
        ],
        {
            "tries": TRIES,
            "clock": clock,
            "least_clock": {n: min(s.clock for s in own) for n, own in starts.items()},
            "processor": processor,
        },
    )


def _help(*verb: str) -> str:
    return SOURCE.format(arguments=[*verb, "--help"])


def _start(source: str) -> Start:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", source + LOADED],
        capture_output=True,
        text=True,
        check=False,
    )
    clock = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(clock, spent, done.stderr.splitlines()[-1] == "True")
