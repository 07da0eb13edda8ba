"""Compare interventions along the reference run; go on where it stopped.

Usage: python -m studies.interventions [RUN], from the root of the repository. RUN, by
default runs/interventions, keeps every pass; a RUN of studies.influence has the samples
already. Tables and figures are collected into studies/interventions, and the tables of
its README are printed. Two cores take about three hours.
"""

import sys
from pathlib import Path

from entrometer.experiments.compare import COMPARE
from entrometer.experiments.compare.config import CompareConfig
from studies.collected import checkpoints, collected
from studies.interventions_tables import tables
from studies.losses import LOSSES

HERE = Path(__file__).parent / "interventions"


def config(update: str, minibatch: str) -> CompareConfig:
    """The interventions on one batch at each of four checkpoints."""
    return CompareConfig(
        checkpoints=checkpoints(8, 24, 40, 56),
        updates=(update,),
        minibatches=(minibatch,),
        policy="smollm2",
        level="easy",
        interventions=LOSSES,
        batches=1,
    )


CONFIGS = {
    # The batch that training went on with, and another of the same size.
    "recorded": config("recorded", "1/1"),
    "sampled": config("sampled-1", "1/1"),
    # The second half of it, after a real step on the first: ratios differ from 1.
    "stale": config("recorded", "2/2"),
}


def main(run: Path) -> None:
    """Measure, collect, print."""
    found = {
        name: collected(
            COMPARE,
            settings,
            run=run / f"interventions-{name}",
            folder=HERE / name,
        )
        for name, settings in CONFIGS.items()
    }
    print(tables(found))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/interventions"))
