"""Rows of the long runs, and the tables of the README.

Usage: python -m studies.long_run_tables, from the root of the repository, prints them,
and those of the trainings under a bonus, from the tables in studies/interventions. It
takes seconds and trains nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from entrometer.runs.rows import read_rows
from studies.long_run_smollm2 import batches, held_out
from studies.markdown import table

HERE = Path(__file__).parent / "interventions"
RESAMPLES = 20_000


@dataclass(frozen=True, kw_only=True)
class LongRun:
    """A training under a loss: held-out measures at its start, middle and end."""

    loss: str
    seed: int
    entropy_0: float
    entropy_24: float
    entropy_48: float
    format_0: float
    format_24: float
    format_48: float
    pass_at_1_0: float
    pass_at_1_24: float
    pass_at_1_48: float
    pass_at_8_0: float
    pass_at_8_24: float
    pass_at_8_48: float

    @property
    def reward(self) -> float:
        """At the end: what the training was for."""
        return self.pass_at_1_48 + 0.5 * self.format_48


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step does against plain, early in the plain training of a seed."""

    loss: str
    seed: int
    objective: str
    predicted: float
    observed: float


def tables(runs: Sequence[LongRun], steps: Sequence[Step]) -> str:
    """At the end, over steps, and against one step; as Markdown."""
    return "\n\n".join(
        [
            table(
                ("loss", "entropy", "reward", "format", "pass@1", "pass@8"),
                _runs(runs),
            ),
            table(("loss", "entropy", "pass@1", "pass@8"), _over_steps(runs)),
            ranks(runs, steps),
        ]
    )


def ranks(runs: Sequence[LongRun], steps: Sequence[Step]) -> str:
    """Spearman's ρ of gains after one step with gains at the end."""
    return table(
        (
            *(
                "one step",
                "long run",
                "Spearman's ρ of the means",
                "mean ρ of the seeds",
            ),
            *("95%, seeds as units", "95%, losses as units"),
        ),
        _ranks(runs, steps),
    )


MEASURES = ("entropy_48", "reward", "format_48", "pass_at_1_48", "pass_at_8_48")


def _runs(runs: Sequence[LongRun]) -> Iterator[list[str]]:
    plain = [r for r in runs if r.loss == "dr-grpo"]
    for loss in dict.fromkeys(r.loss for r in runs):
        own = [r for r in runs if r.loss == loss]
        cells = [loss]
        for name in MEASURES:
            x, y = (np.array([getattr(r, name) for r in part]) for part in (own, plain))
            if loss == "dr-grpo":
                cells.append(f"{x.mean():.3f} ± {_error(x):.3f}")
            else:
                # Seeds are paired: both begin with the same policy.
                cells.append(f"{(x - y).mean():+.3f} ± {_error(x - y):.3f}")
        yield cells


def _over_steps(runs: Sequence[LongRun]) -> Iterator[list[str]]:
    for loss in dict.fromkeys(r.loss for r in runs):
        own = [r for r in runs if r.loss == loss]
        cells = [loss]
        for name, places in (("entropy", 2), ("pass_at_1", 3), ("pass_at_8", 3)):
            means = (
                np.mean([getattr(r, f"{name}_{step}") for r in own])
                for step in (0, 24, 48)
            )
            cells.append(", ".join(f"{mean:.{places}f}" for mean in means))
        yield cells


def _ranks(runs: Sequence[LongRun], steps: Sequence[Step]) -> Iterator[list[str]]:
    losses = [x for x in dict.fromkeys(r.loss for r in runs) if x != "dr-grpo"]
    seeds = sorted({r.seed for r in runs})
    end = {
        name: _grid(losses, seeds, {(r.loss, r.seed): getattr(r, name) for r in runs})
        for name in ("entropy_48", "reward")
    }
    plain = {
        name: np.array(
            [getattr(r, name) for r in runs if r.loss == "dr-grpo"], np.float64
        )
        for name in end
    }
    for objective, name in (("entropy", "entropy_48"), ("reward", "reward")):
        for way in ("predicted", "observed"):
            step = _grid(
                losses,
                seeds,
                {
                    (s.loss, s.seed): getattr(s, way)
                    for s in steps
                    if s.objective == objective
                },
            )
            gain = end[name] - plain[name]
            whole = stats.spearmanr(step.mean(axis=1), gain.mean(axis=1)).statistic
            each = _spearman(step, gain)
            arm = stats.t.ppf(0.975, len(seeds) - 1) * _error(each)
            mean = each.mean()
            low, high = _by_losses(step, gain)
            yield [
                *(f"{objective}, {way}", name, f"{whole:+.2f}", f"{mean:+.2f}"),
                f"[{mean - arm:+.2f}, {mean + arm:+.2f}]",
                f"[{low:+.2f}, {high:+.2f}]",
            ]


def _by_losses(step: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """95% percentile interval of the mean ρ over seeds, by resampling losses."""
    L = len(step)
    drawn = np.random.default_rng(0).integers(L, size=(RESAMPLES, L))
    found: np.ndarray = np.percentile(
        _spearman(step[drawn], gain[drawn]).mean(axis=-1), (2.5, 97.5)
    )
    return found


def _spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's ρ over losses, the last axis but one, for each seed, the last."""
    a, b = (stats.rankdata(z, axis=-2) for z in (x, y))
    a, b = (z - z.mean(axis=-2, keepdims=True) for z in (a, b))
    sizes = np.sqrt(np.square(a).sum(axis=-2) * np.square(b).sum(axis=-2))
    found: np.ndarray = (a * b).sum(axis=-2) / sizes
    return found


def _grid(
    losses: Sequence[str], seeds: Sequence[int], values: dict[tuple[str, int], float]
) -> np.ndarray:
    return np.array([[values[loss, seed] for seed in seeds] for loss in losses])


def _error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(x.size))


def committed() -> tuple[list[LongRun], list[Step]]:
    """The rows that are kept here."""
    return (
        read_rows(HERE / "long-runs.parquet", LongRun),
        read_rows(HERE / "one-step.parquet", Step),
    )


if __name__ == "__main__":
    print(tables(*committed()), batches(), held_out(), sep="\n\n")
