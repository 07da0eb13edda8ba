"""Requests for passes: what an experiment asks for, and how each is run."""

from entrometer.experiments.requests.draw import Draw as Draw
from entrometer.experiments.requests.draw import read_draws as read_draws
from entrometer.experiments.requests.passes import Concentration as Concentration
from entrometer.experiments.requests.passes import Forward as Forward
from entrometer.experiments.requests.passes import Jvp as Jvp
from entrometer.experiments.requests.passes import Jvp2 as Jvp2
from entrometer.experiments.requests.passes import UpdateTables as UpdateTables
from entrometer.experiments.requests.recorded_responses import (
    RecordedResponses as RecordedResponses,
)
from entrometer.experiments.requests.recorded_responses import (
    recorded_responses as recorded_responses,
)
from entrometer.experiments.requests.recorded_responses import (
    scored_responses as scored_responses,
)
from entrometer.experiments.requests.request import NOT_IN_KEY as NOT_IN_KEY
from entrometer.experiments.requests.request import Request as Request
from entrometer.experiments.requests.request import Responses as Responses
from entrometer.experiments.requests.request import Subject as Subject
from entrometer.experiments.requests.request import Worker as Worker
from entrometer.experiments.requests.responses import Minibatch as Minibatch
from entrometer.experiments.requests.responses import Recorded as Recorded
from entrometer.experiments.requests.responses import Reweighted as Reweighted
from entrometer.experiments.requests.responses import Source as Source
from entrometer.experiments.requests.responses import read_batch as read_batch
from entrometer.experiments.requests.sharded import ShardedSum as ShardedSum
from entrometer.experiments.requests.sharded import ShardedTable as ShardedTable
from entrometer.experiments.requests.sharded import Summands as Summands
from entrometer.experiments.requests.step import PolicyAfterStep as PolicyAfterStep
from entrometer.experiments.requests.step import Step as Step
