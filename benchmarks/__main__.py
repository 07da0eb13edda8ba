"""Run benchmarks by name; exit 0 where all their limits hold."""

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path
from pkgutil import iter_modules

from benchmarks.harness import Report
from entrometer.errors import nearest_name

SUPPORT = {
    "__main__",
    "command",
    "enumerated",
    "harness",
    "real_policy",
    "serving",
    "toy_training",
}


def names() -> list[str]:
    """Benchmarks there are: one a file or folder."""
    modules = iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in modules if m.name not in SUPPORT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", help=f"all, or one of: {', '.join(names())}")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line"
    )
    arguments = parser.parse_args()
    if arguments.name == "all":
        flags = ["--json"] if arguments.json else []
        return max(_in_own_process(name, flags) for name in names())
    if arguments.name not in names():
        near = nearest_name(arguments.name, names())
        parser.error(f"no benchmark {arguments.name!r}.{near} There are: {names()}")
    return run_one(arguments.name, as_json=arguments.json)


def run_one(name: str, *, as_json: bool) -> int:
    module = importlib.import_module(f"benchmarks.{name}")
    start = time.perf_counter()
    report: Report = module.run()
    seconds = time.perf_counter() - start
    print(f"{name}: {(module.__doc__ or '').splitlines()[0]}")
    for check in report.checks:
        print(f"  {check}")
    if as_json:
        print(report.as_json(name, seconds), flush=True)
    else:
        verdict = "holds" if report.holds else "DOES NOT HOLD"
        print(f"{name} {verdict} ({seconds:.1f} s)", flush=True)
    return 0 if report.holds else 1


def _in_own_process(name: str, flags: list[str]) -> int:
    # Memory and threads of one benchmark must not show in the figures of the next.
    command = [sys.executable, "-m", "benchmarks", name, *flags]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
