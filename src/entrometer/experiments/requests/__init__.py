"""Requests for passes: what an experiment asks for, and how each is carried out."""

from entrometer.experiments.requests.along import Forward, Jvp, Jvp2
from entrometer.experiments.requests.base import (
    Advance,
    Minibatch,
    Recorded,
    Request,
    Subject,
    Worker,
)
from entrometer.experiments.requests.draw import Draw, read_draws
from entrometer.experiments.requests.step import OverUpdate, Source, Step, read_batch

__all__ = [
    "Advance",
    "Draw",
    "Forward",
    "Jvp",
    "Jvp2",
    "Minibatch",
    "OverUpdate",
    "Recorded",
    "Request",
    "Source",
    "Step",
    "Subject",
    "Worker",
    "read_batch",
    "read_draws",
]
