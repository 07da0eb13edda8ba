"""Whether a governor holds an entropy, against bonuses of fixed and adaptive strength.

The workbench from its first step, two imitated policies with four trainings under each
loss, the same prompts and random numbers for every loss. With GOVERNOR_AT=FOLDER runs
are kept there, and an interrupted benchmark resumes.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.command import processor_seconds
from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from benchmarks.workbench import MALLOC
from entrometer.estimators import two_way
from entrometer.interventions import intervention
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.fork import ForkTables, PromptOutcome

TARGETS = (0.15, 0.3, 0.5)
GOVERNORS = tuple(f"governor:target={t}" for t in TARGETS)
FIXED = tuple(f"entropy-bonus:alpha={a}" for a in (0.003, 0.01, 0.03, 0.1))
OTHERS = (*(f"adaptive-bonus:target={t}" for t in TARGETS), "repo:zeta=0.05")

POLICIES, SEEDS = (1, 2), 4
STEPS, EVERY = 100, 20
SEED = 40
"""Not 0, with whose problems the governor's settings were fitted."""

HELD_FROM = 40
"""Steps that entropy, 0.9 at the start, is given to reach its target."""


def run() -> Report:
    with keeping("GOVERNOR_AT", Path(__file__)) as kept:
        tables = _forked(kept)
    with_target = [x for x in (*GOVERNORS, *OTHERS) if "target=" in x]
    deviations = {x: _deviations(tables, x) for x in with_target}
    rewards = {name: _at_end(tables, name) for name in (*GOVERNORS, *FIXED)}
    best = max(FIXED, key=lambda name: rewards[name].mean())
    lost = [*_lost(tables)]
    figures: dict[str, Any] = {
        "deviation from target": {x: _spread(d) for x, d in deviations.items()},
        "reward at the end": {x: round(float(r.mean()), 4) for x, r in rewards.items()},
        "best fixed strength": best,
        "lost trainings of a governor": lost,
        "strength of each governor": {x: _strengths(tables, x) for x in GOVERNORS},
    }
    every = [d for name in GOVERNORS for d in deviations[name]]
    checks = [
        Check("mean deviation from target, governors", mean(every), at_most=0.1),
        Check("lost trainings of a governor", float(len(lost)), at_most=0.0),
    ]
    for name in GOVERNORS:
        gain = two_way(rewards[name] - rewards[best]).expected
        label = f"reward over {best}: {name}"
        figures[label] = [round(x, 4) for x in (gain.value, gain.low, gain.high)]
    # The best of the targets, as the best of the strengths.
    chosen = max(GOVERNORS, key=lambda name: rewards[name].mean())
    gain = two_way(rewards[chosen] - rewards[best]).expected
    checks.append(
        Check(f"upper end, reward of {chosen} over {best}", gain.high, at_least=0.0)
    )
    return Report(checks, figures)


def _forked(kept: Kept) -> ForkTables:
    for seed in POLICIES:

        def train(run: Path, seed: int = seed) -> dict[str, Any]:
            settings = ("--seed", seed, "--steps", 1, "--run", run)
            seconds = processor_seconds(
                "train", "--recipe", "workbench", *settings, **MALLOC
            )
            return {"seconds": seconds}

        kept.once(f"policy-{seed}", train)
    checkpoints = [kept.root / f"policy-{s}" / "checkpoint-0" for s in POLICIES]
    run = kept.root / "fork"
    if not (run / "summary.json").exists():
        # Not `once`, which would begin again: a stopped fork resumes.
        processor_seconds(
            *("fork", *checkpoints, "--interventions", *GOVERNORS, *FIXED, *OTHERS),
            *("--steps", STEPS, "--every", EVERY, "--seeds", SEEDS, "--seed", SEED),
            *("--shard", 256),
            *("--by", "entropy", "--run", run, "--resume", "--no-report"),
            **MALLOC,
        )
    return read_tables(run, ForkTables)


def _deviations(tables: ForkTables, loss: str) -> list[float]:
    """Return the mean relative deviation of each training, on held-out responses."""
    target = float(loss.partition("target=")[2])
    found = []
    for rows in _trainings(tables, loss):
        steps = sorted({r.steps for r in rows if r.steps >= HELD_FROM})
        at = [_entropy([r for r in rows if r.steps == s]) for s in steps]
        found.append(mean(abs(h - target) / target for h in at))
    return found


def _trainings(tables: ForkTables, loss: str) -> list[list[PromptOutcome]]:
    by: dict[tuple[str, int], list[PromptOutcome]] = {}
    name = _named(loss)
    for row in tables.prompts:
        if row.loss == name:
            by.setdefault((row.checkpoint, row.seed), []).append(row)
    return list(by.values())


def _named(loss: str) -> str:
    """Return the name of a loss in the tables, without settings at their default."""
    return str(intervention(loss))


def _entropy(rows: Sequence[PromptOutcome]) -> float:
    return sum(r.entropy for r in rows) / sum(r.tokens for r in rows)


def _at_end(tables: ForkTables, loss: str) -> np.ndarray:
    """Return rewards after the last step, a row per training, a column per prompt."""
    return np.array(
        [
            [r.reward / r.responses for r in rows if r.steps == STEPS]
            for rows in _trainings(tables, loss)
        ]
    )


def _lost(tables: ForkTables) -> list[str]:
    """Return the trainings whose reward is below that of the policy they began with."""
    first = {
        (r.checkpoint, r.seed): r.reward
        for r in tables.taken
        if r.step == 1 and r.loss == "dr-grpo"
    }
    return [
        f"{name}, {rows[0].checkpoint}, seed {rows[0].seed}"
        for name in GOVERNORS
        for rows in _trainings(tables, name)
        if mean(r.reward / r.responses for r in rows if r.steps == STEPS)
        < first[rows[0].checkpoint, rows[0].seed]
    ]


def _strengths(tables: ForkTables, loss: str) -> dict[str, float]:
    """Return the geometric mean of the strength after 20 steps, and of the last 20."""
    rows = [r for r in tables.taken if r.loss == _named(loss)]
    of = {
        "steps 20 to 40": [r for r in rows if 20 < r.step <= 40],
        "the last 20": [r for r in rows if r.step > STEPS - 20],
    }
    return {
        name: float(
            f"{np.exp(np.mean([np.log(_alpha(r.settings)) for r in some])):.3g}"
        )
        for name, some in of.items()
    }


def _alpha(settings: str) -> float:
    inside = dict(x.split("=") for x in settings.partition(":")[2].split(","))
    # The lower end, where no bonus was paid: entropy rose too fast.
    return max(float(inside.get("alpha", 0.01)), 1e-4)


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": round(mean(values), 4), "largest": round(max(values), 4)}
