"""Every verb still writes the result tables whose hashes `golden.json` has.

`python -m benchmarks.golden --write` writes the hashes anew. They hold for one machine
and one build of torch, because other instructions round differently. Write them before
a change that should leave the numbers alone, and run `python -m benchmarks golden`
after it.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.harness import Check, Report

GOLDEN = Path(__file__).with_name("golden.json")
REFERENCE = Path(__file__).parents[1] / "studies" / "reference"

SMALL = "--prompts 24 --shard 8 --update-prompts 4 --update-responses 4 --no-report"
ONE = f"{SMALL} --batches 1"
COMMANDS = {
    "train": "--recipe tiny-twin --steps 8 --save-every 4 --predict-every 2 --seed 0",
    "eval": "{train} --problems 16 --responses 4 --ks 1 2 4",
    "measure": "{train}/checkpoint-4 --updates recorded sampled-1 "
    f"--curvature-prompts 8 --variance-prompts 8 {ONE}",
    "measure-float64": "{train}/checkpoint-4 --precision float64 "
    f"--curvature-prompts 8 --variance-prompts 0 {ONE}",
    "influence": "{train}/checkpoint-4 --updates recorded sampled-1 --past 2 "
    f"--remove 0.05 {ONE}",
    "kernel": "{train}/checkpoint-4 {train}/checkpoint-8 --updates sampled-1 "
    f"--kernel-prompts 4 --kernel-responses 4 {SMALL}",
    "compare": f"{{train}}/checkpoint-4 {ONE}",
    "compare-batches": "{train}/checkpoint-4 --batches 4 --minibatches 1/1 "
    f"--interventions entropy-bonus high-entropy --no-truth {SMALL}",
    "measure-smollm2": "{reference}/checkpoint-8 --updates recorded sampled-1 "
    f"--curvature-prompts 8 --variance-prompts 8 {ONE}",
}
"""Settings by run; the verb is what stands before the first hyphen."""

TIMES = {"seconds", "elapsed"}
"""Columns that no two runs have in common."""


def run() -> Report:
    expected = json.loads(GOLDEN.read_text())
    with tempfile.TemporaryDirectory() as folder:
        found = hashes(Path(folder))
    names = expected.keys() | found.keys()
    differing = sorted(n for n in names if expected.get(n) != found.get(n))
    return Report(
        [
            Check("tables compared", len(found), at_least=len(expected)),
            Check("tables that differ", len(differing), at_most=0),
        ],
        figures={"differing": differing},
    )


def hashes(folder: Path) -> dict[str, dict[str, str]]:
    """Run each verb; return the hash of every column of every result table."""
    found: dict[str, dict[str, str]] = {}
    for name, settings in COMMANDS.items():
        verb = name.partition("-")[0]
        filled = settings.format(train=folder / "train", reference=REFERENCE)
        where = [] if verb == "eval" else ["--run", str(folder / name)]
        command = [sys.executable, "-m", "entrometer.cli", verb, *filled.split()]
        # One thread: sums over several depend on how many there are.
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(
            [*command, *where],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        found |= {f"{name}/{k}": v for k, v in _tables(folder, name).items()}
    return found


def _tables(folder: Path, name: str) -> dict[str, dict[str, str]]:
    """Return the column hashes of the tables that one run wrote."""
    if name == "train":
        files = [*(folder / name).glob("updates/*.parquet")]
        weights = (folder / name).glob("checkpoint-*/*.safetensors")
        of_weights = {
            f"{path.parent.name}/{path.name}": {
                "bytes": hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            }
            for path in weights
        }
        return of_weights | {path.name: _columns(path) for path in sorted(files)}
    if name == "eval":
        # The newest evaluation's own table; its directory is named by a content key.
        files = [*(folder / "train").glob("evaluation/*/results/*.parquet")]
        return {path.name: _columns(path) for path in files}
    return {path.name: _columns(path) for path in (folder / name / "results").iterdir()}


def _columns(path: Path) -> dict[str, str]:
    table = pq.read_table(path)
    return {
        column: hashlib.sha256(repr(table[column].to_pylist()).encode()).hexdigest()[
            :16
        ]
        for column in table.column_names
        if column not in TIMES
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, nargs="?", const=GOLDEN)
    target = parser.parse_args().write or parser.error("expected --write [FILE]")
    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps(hashes(Path(scratch)), indent=1, sort_keys=True)
    target.write_text(text + "\n")
