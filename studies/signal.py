"""How many prompts of an update batch of the reference run carry a gradient.

A prompt whose responses all have the same reward has advantages of 0 and no gradient.

Usage: python -m studies.signal, from the root of the repository, prints the counts for
the batches that the studies are about.
"""

from functools import cache
from typing import NamedTuple

from entrometer.experiments.update_batch import recorded_batch
from entrometer.runs import read_update, update_path
from studies.collected import REFERENCE
from studies.markdown import table


class Signal(NamedTuple):
    """Prompts of a batch, and those among them that carry a gradient."""

    carrying: int
    prompts: int

    def __str__(self) -> str:
        """As the heads of tables have it."""
        return f"{self.carrying} of {self.prompts} prompts"


@cache
def signal(step: int, part: int = 1, parts: int = 1) -> Signal:
    """Count the prompts of the batch that made a step, or of a part of that batch."""
    batch = recorded_batch(read_update(update_path(REFERENCE, step)))
    return Signal(*batch.minibatch(part, parts).groups_with_signal)


def after(checkpoint: str, minibatch: str = "1/1") -> Signal:
    """Count for the recorded batch that follows a checkpoint, by its name."""
    part, parts = map(int, minibatch.split("/"))
    return signal(int(checkpoint.rpartition("-")[2]) + 1, part, parts)


def tables() -> str:
    """Counts by batch: after each checkpoint, and of the steps that were predicted."""
    checkpoints = [f"checkpoint-{step}" for step in (8, 24, 40, 56)]
    steps = range(8, 65, 8)
    return "\n\n".join(
        [
            table(
                ("prompts with a gradient", *checkpoints),
                (
                    (name, *(str(after(c, minibatch)) for c in checkpoints))
                    for name, minibatch in (
                        ("the whole batch", "1/1"),
                        ("its second half, the stale minibatch", "2/2"),
                    )
                ),
            ),
            table(
                ("step", *map(str, steps)),
                [("prompts with a gradient", *(str(signal(n)[0]) for n in steps))],
            ),
        ]
    )


if __name__ == "__main__":
    print(tables())
