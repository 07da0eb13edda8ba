"""A made-up measurement whose numbers behave as those of a real one do."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.report.kinds import PageParts, RunKind
from entrometer.runs import seal
from entrometer.runs.rows import table_classes, write_rows
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.influence import InfluenceTables
from entrometer.runs.tables.kernel import KernelTables
from entrometer.runs.tables.measure import (
    Change,
    Convergence,
    ErrorStudy,
    MeasureTables,
    Needed,
    Sample,
    Term,
    Variance,
)

TABLES: dict[str, type] = {
    "measure": MeasureTables,
    "influence": InfluenceTables,
    "kernel": KernelTables,
    "compare": CompareTables,
}
ETAS = tuple(10.0 ** (e / 2) for e in range(-16, -3))
RATE = 3e-4
WAYS = (
    ("per_decision", "none", 1.0),
    ("sequence", "none", 2.1),
    ("doubly_robust", "constant", 1.2),
    ("doubly_robust", "prefix", 0.9),
)
FLOORS = {"float64": 2e-17, "float32": 3e-8}


@dataclass(frozen=True)
class Shape:
    """What is made up."""

    checkpoints: Sequence[str] = ("checkpoint-8", "checkpoint-24", "checkpoint-40")
    updates: Sequence[str] = ("recorded", "sampled-1")
    precisions: Sequence[str] = ("float64",)
    etas: Sequence[float] = (*ETAS, RATE)
    slopes: Sequence[float] = (-21.0, -9.0, 4.0)
    """One for each checkpoint, in turn."""
    curvature: bool = True
    prompts: int = 256


def measurement(
    shape: Shape, samples: Sequence[Sample] = (), seed: int = 0
) -> MeasureTables:
    """Tables with a linear regime, noise that falls with the sample, and a floor."""
    rng = np.random.default_rng(seed)
    made = MeasureTables([], [], [], [], [], [], list(samples))
    for place, checkpoint in enumerate(shape.checkpoints):
        slope = shape.slopes[place % len(shape.slopes)]
        for precision in shape.precisions:
            made.convergence.extend(_convergence(checkpoint, precision, shape))
            for update in shape.updates:
                here = slope * float(rng.uniform(0.8, 1.2))
                who = {
                    "checkpoint": checkpoint,
                    "update": update,
                    "precision": precision,
                }
                for weighting, baseline, noise in WAYS:
                    how = who | {"weighting": weighting, "baseline": baseline}
                    for per, tokens in (("token", 1.0), ("sequence", 35.0)):
                        at = how | {"per": per}
                        h1, se = here * tokens, abs(here) * tokens * noise * 0.12
                        made.terms.append(_term(at, place, h1, se, shape))
                        made.changes.extend(_changes(at, h1, se, shape, rng))
                        made.needed.extend(_needed(at, noise))
                made.variances.append(_variance(who, here, shape))
                made.errors.extend(_errors(who, rng))
    return made


def write(
    run: Path,
    made: MeasureTables | InfluenceTables | KernelTables | CompareTables,
    summary: dict[str, Any],
    config: dict[str, Any] | None = None,
) -> Path:
    """Leave behind what a finished measurement does, for a report to read."""
    (run / "results").mkdir(parents=True)
    for name, row in table_classes(type(made)).items():
        write_rows(run / "results" / f"{name}.parquet", row, getattr(made, name))
    about = {"versions": {"torch": "2.13.0"}, "seconds": {"passes": 812.4}}
    for name, body in (
        ("summary", summary),
        ("config", config or {}),
        ("about", about),
    ):
        (run / f"{name}.json").write_text(json.dumps(body), encoding="utf-8")
    (kind,) = [n for n, tables in TABLES.items() if isinstance(made, tables)]
    seal(run, about={"kind": kind, "finished": True})
    return run


def _page_parts(name: str) -> Callable[[], PageParts[Any]]:
    return lambda: import_module(f"entrometer.report.{name}").PARTS


KINDS = {
    name: RunKind(name, tables, _page_parts(name)) for name, tables in TABLES.items()
}
"""The kinds of runs that are made up here, as a report is told of them."""


def _term(at: dict[str, str], place: int, h1: float, se: float, shape: Shape) -> Term:
    h2 = -40 * h1 if shape.curvature else math.nan
    star = 2 * abs(h1 / h2)
    return Term(
        **at,
        step=8 + 16 * place,
        learning_rate=RATE,
        entropy=0.41 - 0.1 * place,
        entropy_se=0.006,
        entropy_low=0.398 - 0.1 * place,
        entropy_high=0.422 - 0.1 * place,
        slope=h1,
        slope_se=se,
        slope_low=h1 - 1.97 * se,
        slope_high=h1 + 1.97 * se,
        curvature=h2,
        curvature_se=abs(h2) * 0.2,
        curvature_prompts=shape.prompts // 4,
        eta_star=star,
        eta_star_low=star * 0.7,
        eta_star_high=star * 1.6,
        power=1.002,
        power_se=0.004,
        power_r2=0.9997,
        power_from=1e-6,
        power_to=5e-3,
        smallest_eta=1e-7,
        halved_eta=2.4e-3,
        floor=FLOORS.get(at["precision"], 1e-3),
    )


def _changes(
    at: dict[str, str], h1: float, se: float, shape: Shape, rng: np.random.Generator
) -> list[Change]:
    rows = []
    for eta in sorted(shape.etas):
        bend = 0.0 if not shape.curvature else -20 * h1 * eta**2
        rounding = float(rng.normal()) * FLOORS.get(at["precision"], 1e-3)
        observed = h1 * eta + bend + 400 * h1 * eta**3 + rounding
        error, error_se = h1 * eta - observed, abs(h1) * (eta**2 * 8 + 1e-14)
        linear, wide, sure = h1 * eta, se * eta * 1.97, 1.97 * error_se
        rows.append(
            Change(
                **at,
                eta=eta,
                observed=observed,
                observed_se=se * eta,
                observed_low=observed - wide,
                observed_high=observed + wide,
                linear=linear,
                linear_se=se * eta,
                linear_low=linear - wide,
                linear_high=linear + wide,
                quadratic=linear + bend if shape.curvature else math.nan,
                quadratic_se=se * eta,
                error=error,
                error_se=error_se,
                error_low=error - sure,
                error_high=error + sure,
                effective_samples=shape.prompts / (1 + (eta / 2.4e-3) ** 1.5),
                largest_weight=1 + 900 * eta,
                prompts=shape.prompts,
                responses=shape.prompts,
            )
        )
    return rows


def _needed(at: dict[str, str], noise: float) -> list[Needed]:
    factor = (2.1 / noise) ** 2
    return [
        Needed(
            **at,
            quantity=quantity,
            eta=eta,
            prompt_variance=noise**2,
            factor=factor * more,
            factor_low=factor * more * 0.8,
            factor_high=factor * more * 1.3,
        )
        for quantity, eta, more in (("change", RATE, 1.0), ("slope", math.nan, 0.9))
    ]


def _variance(who: dict[str, str], slope: float, shape: Shape) -> Variance:
    return Variance(
        **who,
        evaluation_prompts=shape.prompts,
        update_prompts=8,
        value=slope * 0.3,
        given_update=slope**2 * 0.010,
        evaluation=slope**2 * 0.010,
        update_batch=slope**2 * 0.022,
        both=slope**2 * 0.001,
        one_batch=slope * 9,
        one_batch_hoeffding_se=abs(slope) * 4,
        one_batch_jackknife_se=abs(slope) * 4.2,
    )


def _errors(who: dict[str, str], rng: np.random.Generator) -> list[ErrorStudy]:
    rows = []
    for pair, width in (
        ("matched, per decision", 0.01),
        ("matched, sequence", 0.02),
        ("original", 1.1),
    ):
        draws = 0.008 + width * rng.standard_t(4, size=1000)
        rows.append(
            ErrorStudy(
                **who,
                pair=pair,
                eta=RATE,
                batches=1000,
                size=64,
                mean=float(draws.mean()),
                deviation=float(draws.std()),
                quantiles=tuple(np.quantile(draws, np.linspace(0, 1, 101)).tolist()),
            )
        )
    return rows


def _convergence(checkpoint: str, precision: str, shape: Shape) -> list[Convergence]:
    sizes = [2**k for k in range(3, 20) if 2**k <= shape.prompts]
    return [
        Convergence(
            checkpoint=checkpoint,
            precision=precision,
            estimator=estimator,
            prompts=n,
            mean=0.41,
            deviation=width / math.sqrt(n),
            error_50=0.67 * width / math.sqrt(n),
            error_80=1.28 * width / math.sqrt(n),
            error_95=1.96 * width / math.sqrt(n),
        )
        for estimator, width in (("whole vocabulary", 0.1), ("sampled token", 0.23))
        for n in sizes
    ]
