"""A checkpoint that two processes of verl saved, measured by two processes.

None of them ever holds all of it: neither the import, which goes tensor by tensor, nor
the measurement.
"""

from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.harness import Check
from benchmarks.importers.synthetic import write
from benchmarks.keeping import Kept
from benchmarks.sharded.groups import measured, watched
from benchmarks.sharded.subjects import LEAST, command, rewarded, write_prompts

NAME = "verl-fsdp2"
PROCESSES = 2
LAYERS = 8
"""Of 6 million parameters each."""


def checks(kept: Kept) -> tuple[list[Check], dict[str, Any]]:
    """Peak memory of each process against the checkpoint's tensors."""
    whole = kept.once(NAME, _saved)["tensors_mib"]
    folder = kept.root / NAME
    imported = folder / "imported"
    conversion = ["import", str(folder / "global_step_3"), str(imported)]
    settings = (*rewarded(folder / "prompts.jsonl"), *LEAST)
    measurement = command(imported, "measure", "float32", settings)
    converted = kept.once(f"{NAME}-import", partial(watched, g=1, arguments=conversion))
    groups = {
        g: kept.once(
            f"{NAME}-measure-{g}", partial(measured, g=g, arguments=measurement)
        )
        for g in (PROCESSES, 1)
    }
    figures = {"import": converted, "measure": groups[PROCESSES]}
    made = [
        Check(
            f"{NAME}, {verb}: peak of a process over {whole:.0f} MiB of tensors",
            max(found["peak_mib"]) / whole,
            at_most=0.95,
        )
        for verb, found in figures.items()
    ]
    return made, {**figures, "measured by one process": groups[1]}


def _saved(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    # In a process of its own: it joins groups of processes that are not there.
    child = get_context("fork").Process(
        target=write, args=("fsdp2", PROCESSES, LAYERS, folder)
    )
    child.start()
    child.join()
    assert child.exitcode == 0, "the checkpoint could not be made"
    write_prompts(folder)
    files = folder.rglob("*_rank_*.pt")
    return {"tensors_mib": sum(file.stat().st_size for file in files) / 2**20}
