"""Effects of corrections predicted on one half of the prompts, and taken on the other.

Policies whose trainer computes in float32 and whose responses were sampled in bfloat16:
in this process, or by a vLLM server where `VLLM_VENV` names its environment.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import processor_seconds
from benchmarks.serving import serving
from entrometer.report.compare.agreement import gain
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.mismatch import MismatchTables
from entrometer.runs.tables.next_batches import ONE_STEP
from studies.collected import checkpoints
from studies.smollm2 import prepare_smollm2

_EXPECTED = (
    *("loss", "objective", "batches", "prompts", "passes"),
    *("expected", "expected_low", "expected_high"),
)

WITHIN = 0.8
"""Least share of the effects whose two halves agree within their joint 95% interval."""


_REFERENCE = (
    *(*checkpoints(24), "--policy", "smollm2", "--level", "easy"),
    *("--prompts", 64, "--batches", 2),
)
"""A checkpoint of the reference run, SmolLM2 with LoRA, and how it is measured."""


@dataclass(frozen=True)
class Effect:
    """A correction's difference from no correction in one step."""

    correction: str
    objective: str
    predicted: float
    predicted_low: float
    predicted_high: float
    observed: float
    observed_low: float
    observed_high: float

    agrees: bool | None
    """Whether the halves, which share no prompt, agree within their joint noise."""

    def __str__(self) -> str:
        predicted, observed = (
            "{:+.2e} [{:+.2e}, {:+.2e}]".format(
                *(getattr(self, name + end) for end in ("", "_low", "_high"))
            )
            for name in ("predicted", "observed")
        )
        names = f"{self.correction:<14}{self.objective:<9}"
        return f"{names}predicted {predicted}, taken {observed}"


def effects(found: Mapping[str, Any]) -> list[Effect]:
    """Return the effects of a kept result."""
    return [Effect(**row) for row in found["effects"]]


def wanted(every: Mapping[str, Any]) -> list[str]:
    """Return the subjects of `MISMATCH_ONLY`, or all that can be had here."""
    chosen = os.environ.get("MISMATCH_ONLY")
    if chosen:
        return chosen.split(",")
    return [n for n in every if "vllm" not in n or "VLLM_VENV" in os.environ]


_SIZES = ("--prompts", 1024, "--batches", 8, "--update-prompts", 32)
"""How the workbench is measured."""


def _workbench(folder: Path) -> dict[str, Any]:
    checkpoint = _trained_workbench(folder)
    return _measured(folder, checkpoint, "--sampler", "bfloat16", *_SIZES)


def _workbench_vllm(folder: Path) -> dict[str, Any]:
    checkpoint = _trained_workbench(folder)
    flags = ("--dtype", "bfloat16")
    with serving(checkpoint, folder / "vllm.log", *flags) as url:
        return _measured(folder, checkpoint, "--sampler", url, *_SIZES)


def _trained_workbench(folder: Path) -> Path:
    run = folder / "training"
    processor_seconds(*("train", "--recipe", "workbench", "--steps", 40, "--run", run))
    return run / "checkpoint-20"


def _smollm2(folder: Path) -> dict[str, Any]:
    prepare_smollm2()
    return _measured(folder, *_REFERENCE, "--sampler", "bfloat16")


def _smollm2_vllm(folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    flags = ("--dtype", "bfloat16", "--enable-lora", "--max-lora-rank", "64")
    with serving(prepare_smollm2(), folder / "vllm.log", *flags) as url:
        return _measured(folder, *_REFERENCE, "--sampler", url)


def _measured(folder: Path, *arguments: object) -> dict[str, Any]:
    run = folder / "mismatch"
    seconds = processor_seconds(
        *("mismatch", *arguments, "--updates", "sampled-1", "--run", run)
    )
    tables = read_tables(run, MismatchTables)
    (engine,) = tables.engines
    (every,) = (d for d in tables.distances if d.by == "all")
    return {
        "seconds": round(seconds),
        "engine": asdict(engine),
        "distance": asdict(every),
        "effects": [asdict(x) for x in _effects(tables)],
        "expected": [
            {n: _finite(getattr(r, n)) for n in _EXPECTED}
            for r in tables.expected
            if r.against and r.horizon == ONE_STEP
        ],
    }


def _finite(x: Any) -> Any:
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _effects(tables: MismatchTables) -> list[Effect]:
    plain = {o.objective: o for o in tables.outcomes if o.name == "dr-grpo"}
    found, seen = [], set()
    for o in tables.outcomes:
        if not o.tried or o.changed == 0:
            continue
        both = gain(o, plain[o.objective])
        # Limits that no ratio passes make equal steps, which count once.
        if (o.objective, o.observed_gain) in seen:
            continue
        seen.add((o.objective, o.observed_gain))
        found.append(
            Effect(
                o.settings,
                o.objective,
                *both.predicted,
                *(o.observed_gain, o.observed_gain_low, o.observed_gain_high),
                both.within,
            )
        )
    return found


SUBJECTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "workbench": _workbench,
    "workbench-vllm": _workbench_vllm,
    "smollm2": _smollm2,
    "smollm2-vllm": _smollm2_vllm,
}
"""Measurements by name: each makes its policy in a folder, and measures it there."""
