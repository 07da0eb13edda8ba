"""Entropy and reward of each training batch of many short trainings."""

# Axes: N steps of a training.

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

FILE = Path(__file__).parents[2] / "studies" / "forecast" / "series.parquet"


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """The series of one training."""

    part: str  #: `calibration` or `held-out`.
    fork: str  #: Name of the fork that it is a continuation of.
    loss: str
    seed: int
    entropy: Float[np.ndarray, " N"]
    reward: Float[np.ndarray, " N"]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.entropy.size

    @property
    def cluster(self) -> tuple[str, int]:
        """Same for trainings with the same problems and random numbers."""
        return self.fork, self.seed

    def until(self, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers of the first t steps, their entropies and their rewards."""
        return np.arange(1.0, t + 1), self.entropy[:t], self.reward[:t]


def read(path: Path = FILE) -> list[Training]:
    """Return the trainings of a file, in its order."""
    by: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in pq.read_table(path).to_pylist():
        key = (row["part"], row["fork"], row["loss"], row["seed"])
        by.setdefault(key, []).append(row)
    found = []
    for (part, fork, loss, seed), rows in by.items():
        assert [r["step"] for r in rows] == list(range(1, len(rows) + 1))
        entropy, reward = (
            np.array([r[x] for r in rows], float) for x in ("entropy", "reward")
        )
        found.append(
            Training(
                part=part,
                fork=fork,
                loss=loss,
                seed=seed,
                entropy=entropy,
                reward=reward,
            )
        )
    return found


def write(trainings: Iterable[Training], path: Path) -> None:
    """Write trainings, a row per step, in single precision."""
    rows = [
        {
            "part": t.part,
            "fork": t.fork,
            "loss": t.loss,
            "seed": t.seed,
            "step": step + 1,
            "entropy": float(np.float32(t.entropy[step])),
            "reward": float(np.float32(t.reward[step])),
        }
        for t in trainings
        for step in range(t.steps)
    ]
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("part", "fork", "loss")),
            *((name, pa.int32()) for name in ("seed", "step")),
            *((name, pa.float32()) for name in ("entropy", "reward")),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")
