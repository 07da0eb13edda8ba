"""A command in a process of its own, on one core, with its processor time."""

import os
import subprocess
import sys

_CODE = (
    "import resource, sys; from entrometer.cli import main; "
    "code = main(sys.argv[1:]); "
    "print('seconds', sum(resource.getrusage(resource.RUSAGE_SELF)[:2])); "
    "sys.exit(code)"
)


def processor_seconds(*arguments: object, **environment: str) -> float:
    """Run `entrometer` with arguments; its processor time. Raises if it fails."""
    command = [sys.executable, "-c", _CODE, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return float(done.stdout.rpartition("seconds")[2])
