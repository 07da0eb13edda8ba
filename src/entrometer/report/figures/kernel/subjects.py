"""What the figures of kernels share: a checkpoint and a metric, and their names."""

from collections.abc import Sequence

from entrometer.report.curves import Subject
from entrometer.report.read import KernelRun
from entrometer.runs.tables.kernel import (
    Block,
    Eigenvalue,
    Element,
    Growth,
    SketchError,
)

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
