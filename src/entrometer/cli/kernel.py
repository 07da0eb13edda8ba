"""Measure how much a step made from one response moves another, and write a report."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.api.experiments.kernel import KERNEL
from entrometer.cli.experiment import carry_out
from entrometer.cli.settings import Asked
from entrometer.experiments.kernel.config import KernelConfig


@dataclass(frozen=True, kw_only=True)
class Kernel(Asked, KernelConfig):
    """Measure the Fisher kernel between responses: the effect of one on another.

    The task, its level and problems, the policy, the temperature, the length limit and
    the clipping are by default those of the training, where its config.json lies beside
    the checkpoint.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    return carry_out(KERNEL, Kernel, arguments)
