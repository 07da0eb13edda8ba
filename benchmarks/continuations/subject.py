"""Trainings that are continued: from which checkpoint, under which losses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import processor_seconds
from benchmarks.continuations.loop import Continuation
from benchmarks.keeping import Kept
from benchmarks.workbench import MALLOC
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.next_batches import ExpectedChange
from studies.collected import REFERENCE, committed_tables

BATCHES = 32
"""Update batches by which rates are predicted on the workbench."""

LAST = 60
_WORKBENCH = Continuation(
    checkpoint="",
    task="order",
    level="mixed",
    max_tokens=6,
    prompts=32,
    responses=8,
    problems=8192,
    evaluated=1024,
)
_REFERENCE = Continuation(
    checkpoint="",
    base="smollm2",
    task="arithmetic",
    level="easy",
    max_tokens=64,
    prompts=8,
    responses=8,
    problems=2048,
    evaluated=64,
)


@dataclass(frozen=True)
class Subject:
    """A checkpoint, the losses that continue from it, and what was predicted."""

    name: str
    losses: Sequence[str]  #: Compared with Dr-GRPO, which is not among them.
    seeds: Sequence[int]
    horizons: tuple[int, ...]  #: Steps after which entropy is measured.
    training: Continuation
    expected: Sequence[ExpectedChange]  #: Predicted rates.

    def continued(self, kept: Kept, loss: str, seed: int) -> dict[str, Any]:
        """Return the entropy before and at each horizon of one training."""
        name = f"{self.name}-{loss}-{seed}".replace(":", "-")
        return kept.once(name, partial(self._entropies, loss, seed))

    def _entropies(self, loss: str, seed: int, _: Path) -> dict[str, Any]:
        torch.set_num_threads(1)
        return {"entropies": self.training.entropies(loss, seed, self.horizons)}


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
        losses=losses,
        seeds=range(4),
        horizons=(8, 32),
        training=replace(_WORKBENCH, checkpoint=str(checkpoint)),
        expected=read_tables(compared, CompareTables).expected,
    )


def reference(step: int, losses: Sequence[str]) -> Subject:
    """Return the reference run at a checkpoint, with the study's predicted rates."""
    study = REFERENCE.parent / "next-batches" / f"checkpoint-{step}"
    return Subject(
        name=f"reference-{step}",
        losses=losses,
        seeds=range(2),
        horizons=(8,),
        training=replace(_REFERENCE, checkpoint=str(REFERENCE / f"checkpoint-{step}")),
        expected=committed_tables(study, CompareTables).expected,
    )
