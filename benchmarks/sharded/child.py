"""A command of the package whose memory is watched, in each process of a group.

    python -m benchmarks.sharded.child FOLDER LIMIT VERB …

writes `peak-RANK.json` into FOLDER: the most anonymous memory above the start, in MiB.
With a LIMIT in MiB other than 0, the process may not hold more than that besides what
it holds when everything is imported.
"""

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path

import entrometer.experiments.run  # noqa: F401 (so that it is imported)
from benchmarks.harness import resident_kib
from entrometer.cli import main


def watched(folder: Path, limit: int, arguments: list[str]) -> int:
    start = resident_kib(os.getpid())["anonymous"]
    if limit:
        most = _data_kib() * 2**10 + limit * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    peak = [start]

    def watch() -> None:
        while True:
            peak[0] = max(peak[0], resident_kib(os.getpid())["anonymous"])
            time.sleep(0.002)

    threading.Thread(target=watch, daemon=True).start()
    code = main(arguments)
    rank = os.environ.get("RANK", "0")
    found = {"peak_mib": round((peak[0] - start) / 2**10, 1)}
    (folder / f"peak-{rank}.json").write_text(json.dumps(found))
    return code


def _data_kib() -> int:
    """What RLIMIT_DATA counts: private memory that can be written."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1])
    raise RuntimeError("expected VmData in /proc/self/status")


if __name__ == "__main__":
    sys.exit(watched(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
