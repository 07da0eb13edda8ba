"""A damaged file is refused or named by whatever reads it; nothing is used silently."""

import shutil
import tempfile
from pathlib import Path

from benchmarks.damage.damages import DAMAGES, damaged
from benchmarks.damage.readers import read_everything
from benchmarks.harness import Check, Report
from benchmarks.toy_training import CONFIG, digests, run_to_end
from entrometer.runs import newest_complete


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        run_to_end(whole, CONFIG.steps, CONFIG.save_every)
        older = f"checkpoint-{CONFIG.steps - CONFIG.save_every}"
        tried = passed = unnamed = 0
        missed: list[str] = []
        for path in _files(whole):
            for damage in DAMAGES:
                tried += 1
                with damaged(path, damage):
                    newest, refused = newest_complete(whole)
                if newest is None or newest.name != older:
                    passed += 1
                    missed.append(f"{path.relative_to(whole)} {damage}")
                unnamed += not any(path.name in str(error) for error in refused)
        resumed = _resumed(whole, Path(folder) / "resumed")
        outcomes = read_everything(whole, Path(folder))
    silent = [o for o in outcomes if o.kind == "silent"]
    named = [o for o in outcomes if o.kind in ("refused", "stated")]
    return Report(
        [
            Check("damages that were tried", tried, at_least=80),
            Check("damages after which it was used all the same", passed, at_most=0),
            Check("refusals that do not name the file", unnamed, at_most=0),
            Check("resumed past a damaged one, bits that differ", resumed, at_most=0),
            Check("damages that a command met", len(outcomes), at_least=800),
            Check("files among them", len({o.file for o in outcomes}), at_least=60),
            Check("damages read without a word", len(silent), at_most=0),
            Check("share that is named", len(named) / len(outcomes), at_least=1),
        ],
        figures={
            "missed": missed,
            "silent": [str(o) for o in silent],
            "refused": sum(o.kind == "refused" for o in outcomes),
            "stated": sum(o.kind == "stated" for o in outcomes),
            "unnamed_with_the_same_results": [
                str(o) for o in outcomes if o.kind == "same"
            ],
        },
    )


def _files(run: Path) -> list[Path]:
    """Files of the last checkpoint, and batches recorded since the one before."""
    last = run / f"checkpoint-{CONFIG.steps}"
    since = sorted((run / "updates").iterdir())[-CONFIG.save_every :]
    return [p for p in sorted(last.rglob("*")) if p.is_file()] + since


def _resumed(whole: Path, copy: Path) -> int:
    """Train on from a run whose last checkpoint is damaged."""
    shutil.copytree(whole, copy)
    (copy / f"checkpoint-{CONFIG.steps}" / "optimizer.pt").unlink()
    run_to_end(copy, CONFIG.steps, CONFIG.save_every)
    return int(digests(copy) != digests(whole))
