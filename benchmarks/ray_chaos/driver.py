"""The driver of a run, in a process of its own: `driver ADDRESS TRAINED STORE`."""

import sys
from pathlib import Path

from benchmarks.ray_chaos.works import works
from entrometer.engine import quiet
from entrometer.engine.on_ray import OnRay
from entrometer.experiments.requests import Worker


def main(address: str, trained: Path, store: Path) -> None:
    store.mkdir(exist_ok=True)
    engine = OnRay(address=address, workers=3)
    engine.carry_out(works(trained), worker=Worker, store=store, progress=quiet)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
