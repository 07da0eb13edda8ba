"""Requests for passes: what an experiment asks for, and how each is run."""

from entrometer.experiments.requests.passes import (
    Concentration,
    Forward,
    Jvp,
    Jvp2,
    UpdateTables,
)
from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Subject,
    Worker,
)
from entrometer.experiments.requests.responses import (
    Draw,
    Minibatch,
    Recorded,
    Source,
    read_batch,
    read_draws,
)
from entrometer.experiments.requests.sharded import ShardedSum, ShardedTable, Summands
from entrometer.experiments.requests.step import PolicyAfterStep, Step

__all__ = [
    "NOT_IN_KEY",
    "Concentration",
    "Draw",
    "Forward",
    "Jvp",
    "Jvp2",
    "Minibatch",
    "PolicyAfterStep",
    "Recorded",
    "Request",
    "Responses",
    "ShardedSum",
    "ShardedTable",
    "Source",
    "Step",
    "Subject",
    "Summands",
    "UpdateTables",
    "Worker",
    "read_batch",
    "read_draws",
]
