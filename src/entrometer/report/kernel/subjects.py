"""What the figures of kernels share: a checkpoint and a metric, and their names."""

from collections.abc import Sequence

from entrometer.report.kinds import FinishedRun
from entrometer.report.subjects import Subject
from entrometer.runs.tables.kernel import (
    Block,
    Eigenvalue,
    Element,
    Growth,
    KernelTables,
    Prediction,
    SketchError,
)

KernelRun = FinishedRun[KernelTables]
Runs = Sequence[KernelRun]

BLOCKS = {
    "self": "a response and itself",
    "prompt": "others to the same prompt",
    "other": "responses to other prompts",
}


Row = Block | Eigenvalue | Element | Growth | SketchError
"""A row of a checkpoint under a metric."""


def kernel_of(run: KernelRun, row: Row) -> Subject:
    """Which kernel a row is of."""
    return Subject(run.name, row.checkpoint, row.metric, "")


def block_name(block: str) -> str:
    """Which pairs a block has, in words."""
    return BLOCKS.get(block, block)


def update_of(run: KernelRun, row: Prediction) -> Subject:
    """Which update a prediction is of."""
    return Subject(run.name, row.checkpoint, row.update, "")
