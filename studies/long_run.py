"""Does the ranking after one step foretell a training? On the tiny policy; resumable.

Usage: python -m studies.long_run [RUN], from the root of the repository. Trains the
tiny twin under each loss with each seed, evaluates it, and compares the losses by one
step at a checkpoint of every plain training. Tables go to studies/interventions, and
those of its README are printed. Two cores take about two hours.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from entrometer.api.progress import Ticker
from entrometer.experiments.compare.config import CompareConfig
from entrometer.recipes import tiny_twin
from entrometer.runs.rows import write_rows
from entrometer.training.config import TrainConfig
from studies.long_run_tables import LongRun, Step, tables

Found = TypeVar("Found")

HERE = Path(__file__).parent / "interventions"

PLAIN = "dr-grpo"
LOSSES = (
    PLAIN,
    "grpo",
    "clip-higher",
    "clip-cov:rho=0.02",
    "kl-cov:rho=0.02",
    "entropy-bonus",
    "high-entropy",
    "steer:lowest=0.5",
    "clip-b",
    "positive-only",
    "negative-reinforced",
)
"""Not those that act below an entropy that so short a training does not reach."""

SEEDS = range(8)
STEPS = 48
EARLY = 8
"""Steps behind the checkpoint at which one step is looked at."""

CORES = os.cpu_count() or 1


def config(loss: str, seed: int) -> TrainConfig:
    """The twin, with two updates a round of sampling, so that ratios differ from 1."""
    return replace(
        tiny_twin(),
        intervention=loss,
        seed=seed,
        steps=STEPS,
        save_every=EARLY if loss == PLAIN else STEPS // 2,
        window=2,
        predict_every=0,
    )


def trained(run: Path, loss: str, seed: int) -> LongRun:
    """Train and evaluate, or read what was."""
    import torch

    from entrometer.experiments.evaluation import EVAL
    from entrometer.experiments.evaluation.config import EvalConfig
    from entrometer.experiments.run import run_experiment
    from entrometer.runs import checkpoints, newest_complete
    from entrometer.training.run import train

    torch.set_num_threads(1)
    settings = config(loss, seed)
    here = run / loss.replace(":", "-") / f"seed-{seed}"
    newest, _ = newest_complete(here) if here.is_dir() else (None, [])
    if newest is None or newest.name != f"checkpoint-{STEPS}":
        train(settings, here)
    config_of = EvalConfig(
        checkpoints=tuple(
            str(p) for n, p in checkpoints(here) if n in (0, STEPS // 2, STEPS)
        ),
        policy=settings.policy,
        task=settings.task,
        level=settings.level,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
    )
    evaluated = run_experiment(EVAL, config_of, here / "evaluation" / "long-run")
    return LongRun(
        loss=loss,
        seed=seed,
        **{
            f"{row.quantity.removesuffix('_rate')}_{row.step}": row.value
            for row in evaluated.results
            if row.quantity in ("entropy", "format_rate", "pass_at_1", "pass_at_8")
        },
    )


def one_step(run: Path, seed: int) -> list[Step]:
    """What one step under each loss does at an early checkpoint of the plain run."""
    import torch

    from entrometer.experiments.compare import COMPARE
    from entrometer.experiments.run import run_experiment

    torch.set_num_threads(1)
    settings = config(PLAIN, seed)
    compared = CompareConfig(
        checkpoints=(str(run / PLAIN / f"seed-{seed}" / f"checkpoint-{EARLY}"),),
        interventions=tuple(loss for loss in LOSSES if loss != PLAIN),
        minibatches=("2/2",),
        policy=settings.policy,
        task=settings.task,
        level=settings.level,
        format_weight=settings.format_weight,
        max_tokens=settings.max_tokens,
        max_grad_norm=settings.max_grad_norm,
    )
    found = run_experiment(COMPARE, compared, run / "one-step" / f"seed-{seed}")
    return [
        Step(
            loss=o.settings,
            seed=seed,
            objective=o.objective,
            predicted=o.gain,
            observed=o.observed_gain,
        )
        for o in found.outcomes
        if o.tried
    ]


@dataclass(frozen=True)
class Job:
    """A training, or a look at one step where it has no loss."""

    seed: int
    loss: str = ""


def main(run: Path) -> None:
    """Train, look at one step, collect, print."""
    jobs = [Job(seed, loss) for seed in SEEDS for loss in LOSSES]
    runs = _all(jobs, partial(_train, run))
    steps = _all([Job(seed) for seed in SEEDS], partial(_look, run))
    rows = sorted(runs, key=lambda r: (LOSSES.index(r.loss), r.seed))
    looked = [step for own in steps for step in own]
    HERE.mkdir(exist_ok=True)
    write_rows(HERE / "long-runs.parquet", LongRun, rows)
    write_rows(HERE / "one-step.parquet", Step, looked)
    print(tables(rows, looked))


def _train(run: Path, job: Job) -> LongRun:
    return trained(run, job.loss, job.seed)


def _look(run: Path, job: Job) -> list[Step]:
    return one_step(run, job.seed)


def _all(jobs: Sequence[Job], work: Callable[[Job], Found]) -> list[Found]:
    """Results of all jobs, a core each."""
    found = []
    context = multiprocessing.get_context("spawn")
    with Ticker() as ticker, ProcessPoolExecutor(CORES, mp_context=context) as pool:
        for number, done in enumerate(
            as_completed([pool.submit(work, job) for job in jobs]), 1
        ):
            found.append(done.result())
            ticker.tick("long run", number, len(jobs), "")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/long-run"))
