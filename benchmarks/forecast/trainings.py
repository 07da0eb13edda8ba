"""The trainings of the study, made as a user would: forks of the workbench."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import processor_seconds
from benchmarks.forecast.series import Training
from benchmarks.keeping import Kept, keeping
from benchmarks.workbench import MALLOC
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.fork import ForkTables

SEEDS = 4


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Trainings from one imitated policy, plain ones and those under some losses."""

    part: str
    policy: int  #: Seed of its imitation.
    seed: int  #: Seed of its problems and responses.
    losses: tuple[str, ...]
    steps: int = 80
    prompts: int = 16
    window: int = 1

    @property
    def name(self) -> str:
        """Name of the fork, and of its run directory."""
        return f"policy-{self.policy}-seed-{self.seed}"


GOVERNORS = tuple(f"governor:target={t}" for t in (0.15, 0.3, 0.5))
BONUSES = ("entropy-bonus:alpha=0.003", "entropy-bonus:alpha=0.03", "adaptive-bonus")
STRENGTHS = tuple(f"entropy-bonus:alpha={a}" for a in (0.003, 0.01, 0.03, 0.1))
RATIOS = ("clip-higher", "clip-cov:rho=0.02", "kl-cov:rho=0.02")

FORKS = (
    *(
        Fork(
            part="calibration",
            policy=policy,
            seed=0,
            losses=GOVERNORS,
            steps=100,
            prompts=32,
        )
        for policy in (1, 2)
    ),
    Fork(part="calibration", policy=2, seed=31, losses=BONUSES),
    Fork(
        part="calibration",
        policy=1,
        seed=32,
        losses=RATIOS,
        steps=64,
        prompts=8,
        window=4,
    ),
    Fork(
        part="calibration",
        policy=2,
        seed=33,
        losses=("governor:target=0.3", "negative-reinforced"),
        steps=64,
        prompts=8,
        window=4,
    ),
    *(
        Fork(
            part="held-out",
            policy=policy,
            seed=40,
            losses=(*GOVERNORS, *STRENGTHS),
            steps=100,
            prompts=32,
        )
        for policy in (1, 2)
    ),
)


def made(benchmark: Path) -> list[Training]:
    """Make all trainings in the folder that FORECAST_AT names, or resume them."""
    found: list[Training] = []
    with keeping("FORECAST_AT", benchmark) as kept:
        for policy in sorted({fork.policy for fork in FORKS}):

            def imitate(run: Path, policy: int = policy) -> dict[str, Any]:
                settings = ("--seed", policy, "--steps", 1, "--run", run)
                recipe = ("train", "--recipe", "workbench")
                return {"seconds": processor_seconds(*recipe, *settings, **MALLOC)}

            kept.once(f"policy-{policy}", imitate)
        for fork in FORKS:
            found += _forked(kept, fork)
    return found


def _forked(kept: Kept, fork: Fork) -> list[Training]:
    run = kept.root / fork.name
    if not (run / "summary.json").exists():
        # Not `once`, which would begin again: a stopped fork resumes.
        processor_seconds(
            *("fork", kept.root / f"policy-{fork.policy}" / "checkpoint-0"),
            *("--interventions", *fork.losses, "--steps", fork.steps),
            *("--seeds", SEEDS, "--seed", fork.seed, "--window", fork.window),
            # Only the training batches count: as small an evaluation as there is.
            *("--update-prompts", fork.prompts, "--prompts", 8, "--responses", 1),
            *("--shard", 256, "--run", run, "--resume", "--no-report"),
            **MALLOC,
        )
    rows: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
    for row in read_tables(run, ForkTables).taken:
        key = (row.loss, row.seed)
        rows.setdefault(key, []).append((row.step, row.entropy, row.reward))
    return [
        Training(
            part=fork.part,
            fork=fork.name,
            loss=loss,
            seed=seed,
            entropy=np.array([h for _, h, _ in sorted(steps)]),
            reward=np.array([r for _, _, r in sorted(steps)]),
        )
        for (loss, seed), steps in rows.items()
    ]
