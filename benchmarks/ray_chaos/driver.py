"""The driver of a run: `driver ADDRESS TRAINED STORE SHARDS`, in its own process."""

import sys
from pathlib import Path

from benchmarks.ray_chaos.works import works
from entrometer.engine import quiet
from entrometer.engine.ray_engine import RayEngine
from entrometer.experiments.requests import Worker
from entrometer.experiments.run import missing


def main(address: str, trained: Path, store: Path, shards: int) -> None:
    store.mkdir(exist_ok=True)
    engine = RayEngine(address=address, workers=3, shards=shards)
    asked = missing(works(trained, shards), store)
    engine.run(asked, worker=Worker, store=store, progress=quiet)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
