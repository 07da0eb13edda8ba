"""Trainings that are continued: from which checkpoint, under which losses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import processor_seconds
from benchmarks.keeping import Kept
from benchmarks.workbench import MALLOC
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.fork import ForkTables, LossOutcome
from entrometer.runs.tables.next_batches import ExpectedChange
from studies.collected import REFERENCE, committed_tables

BATCHES = 32
"""Update batches by which rates are predicted on the workbench."""

LAST = 60


@dataclass(frozen=True)
class Subject:
    """A checkpoint, the losses that continue from it, and what was predicted."""

    name: str
    checkpoint: Path
    losses: Sequence[str]  #: Compared with Dr-GRPO, which is not among them.
    horizons: tuple[int, ...]  #: Steps after which entropy is measured.
    fork: tuple[object, ...]  #: Further arguments of `entrometer fork`.
    expected: Sequence[ExpectedChange]  #: Predicted rates.

    def continued(self, kept: Kept) -> list[LossOutcome]:
        """Return where each loss leads after each horizon, plain included."""
        name = f"{self.name}-continued"

        def make(run: Path) -> dict[str, Any]:
            settings = (
                *("--interventions", *self.losses, "--steps", self.horizons[-1]),
                *("--every", self.horizons[0], "--no-report", *self.fork),
            )
            seconds = processor_seconds(
                "fork", self.checkpoint, "--run", run, *settings, **MALLOC
            )
            return {"seconds": seconds}

        kept.once(name, make)
        return read_tables(kept.root / name, ForkTables).outcomes


def workbench(kept: Kept, step: int, losses: Sequence[str]) -> Subject:
    """Return the workbench's training at a checkpoint, trained and compared once."""
    run, compared = kept.root / "workbench", kept.root / f"compared-{step}"
    checkpoint = run / f"checkpoint-{step}"

    def train(_: Path) -> dict[str, Any]:
        settings = ("--recipe", "workbench", "--steps", LAST, "--run", run)
        return {"seconds": processor_seconds("train", *settings, **MALLOC)}

    def compare(_: Path) -> dict[str, Any]:
        # No batch was recorded after the last step.
        first = "sampled-1" if step == LAST else "recorded"
        settings = (
            *("--updates", first),
            *("--batches", BATCHES, "--minibatches", "1/1", "--no-truth"),
            *("--no-report", "--prompts", 512, "--interventions", *losses),
        )
        seconds = processor_seconds(
            "compare", checkpoint, "--run", compared, *settings, **MALLOC
        )
        return {"seconds": seconds}

    kept.once("workbench", train)
    kept.once(f"compared-{step}", compare)
    return Subject(
        name=f"workbench-{step}",
        checkpoint=checkpoint,
        losses=losses,
        horizons=(8, 32),
        fork=("--prompts", 1024, "--shard", 256, "--seeds", 4),
        expected=read_tables(compared, CompareTables).expected,
    )


def reference(step: int, losses: Sequence[str]) -> Subject:
    """Return the reference run at a checkpoint, with the study's predicted rates."""
    study = REFERENCE.parent / "next-batches" / f"checkpoint-{step}"
    return Subject(
        name=f"reference-{step}",
        checkpoint=REFERENCE / f"checkpoint-{step}",
        losses=losses,
        horizons=(8,),
        fork=("--prompts", 64, "--seeds", 2),
        expected=committed_tables(study, CompareTables).expected,
    )
