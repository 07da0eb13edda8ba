"""The time that handing out a shard takes, from ten shards to a hundred thousand."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Check
from entrometer.engine import Manifest, Row
from entrometer.engine.schedule import Schedule, name_of

SHARDS = (10, 100, 1_000, 10_000, 100_000)
LEAST = 2_000
"""Shards over which a time is taken: ten of them take no time at all."""


@dataclass(frozen=True, eq=False)
class Shard:
    """A forward that waits for its draw."""

    number: int
    kind: str
    needs: tuple["Shard", ...] = ()
    pieces: tuple["Shard", ...] = ()
    part_of: str = ""

    @property
    def required_model(self) -> int:
        """One of twenty checkpoints."""
        return self.number % 20

    @property
    def cost(self) -> float:
        return 1.0 + self.number % 7

    def path(self, store: Path) -> Path:
        return store / f"{self.kind}-{self.number:024x}.parquet"

    def tokens(self, store: Path) -> int:
        return 0

    def run(self, worker: object) -> None:
        """Nothing."""


def manifests() -> tuple[list[Check], dict[str, float]]:
    seconds = {}
    for shards in SHARDS:
        repeats = max(1, LEAST // shards)
        seconds[str(shards)] = min(_scheduled(shards, repeats) for _ in range(3))
    times = [seconds[str(shards)] for shards in SHARDS]
    return [
        Check(
            "time a shard, the longest manifest over the shortest",
            times[-1] / times[0],
            at_most=2.0,
        ),
        Check("seconds a shard, the longest manifest", times[-1], at_most=1e-3),
    ], seconds


def _scheduled(shards: int, repeats: int) -> float:
    """Seconds a shard: planned, looked up, handed out, taken back and noted."""
    draws = [Shard(i, "rollouts") for i in range(shards // 2)]
    works = [*draws, *(Shard(d.number, "forward", (d,)) for d in draws)]
    taken = 0.0
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            manifest = Manifest(Path(folder))
            schedule = Schedule(works, manifest)
            required_model = None
            while (work := schedule.take(required_model)) is not None:
                required_model = work.required_model
                schedule.done(work)
                manifest.add(Row(name_of(work), work.kind, 0, 0.0, "here"))
            taken += time.perf_counter() - began
            assert not schedule.left
    return taken / (repeats * len(works))
