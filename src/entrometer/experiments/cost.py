"""Estimates of time and memory, from timing a small part of an experiment's passes.

Every kind of pass is timed at two sizes on this machine. The seconds of a pass are
$t = an + bc$, where $n$ is how often it does what takes a fixed time
(`Request.repeats`: 1, or the steps of a training) and $c$ its cost in forward passes
over one response (`Request.cost`), so the pass itself says how its work grows.
"""

import operator
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from entrometer.experiments.experiment import Config, Experiment
from entrometer.experiments.requests import (
    Draw,
    Forward,
    RecordedResponses,
    Request,
    Source,
    Subject,
    Worker,
)
from entrometer.experiments.run import missing, requests_of
from entrometer.passes import TOKEN_BUDGET
from entrometer.policy import Policy
from entrometer.runs import read_rollouts

SIZES = ((4, 2), (16, 4))
"""Sizes of the two parts that are timed: responses of an evaluation batch, and prompts
(and responses per prompt) of an update."""

_QUICK = 3.0
"""Seconds; a longer pass is timed once."""


class Rate(NamedTuple):
    """Seconds of a pass: `fixed` per repeat and `per_cost` · its cost.

    The first pass of a stage takes longer.
    """

    fixed: float
    per_cost: float
    first: float = 0.0
    """Extra seconds of the first pass of a stage."""

    def seconds(self, request: Request) -> float:
        """Return the seconds of a pass that is not the first of its stage."""
        # Not `request.cost`: a divided request has none, because its shards have it.
        cost = request.forwards * request.rows
        return self.fixed * request.repeats + self.per_cost * cost


@dataclass(frozen=True)
class Memory:
    """Peak memory of a worker in bytes, by what takes it."""

    weights: float
    vectors: float  #: Parameter-sized vectors, AdamW's two moments included.
    activations: float  #: What layers keep for a backward pass.

    @property
    def total(self) -> float:
        """Bytes of weights, vectors and activations together."""
        return self.weights + self.vectors + self.activations


@dataclass(frozen=True)
class Timing:
    """Times and sizes, measured by running a small part of a plan."""

    rates: dict[str, Rate]
    """Seconds of a pass, by stage."""
    first_load: float  #: Seconds to load the policy the first time.
    load: float
    """Seconds to load the policy again."""
    lengths: tuple[int, ...]
    """Tokens of each response that was drawn."""
    sequence: int
    """Most tokens of a prompt together with its response."""
    parameters: int  #: Number of parameters of the model.
    trained: int  #: Number of parameters that are trained.
    kept_per_token: int
    """Bytes that the layers keep per token for a backward pass."""
    item_bytes: int  #: Bytes of one trained parameter.
    weight_bytes: int
    """Bytes of all parameters; frozen ones may be narrower than trained ones."""

    def memory(self, requests: Iterable[Request]) -> Memory:
        """Return the peak memory of a worker that runs these requests.

        Weights, the vectors of the request that needs the most of them with AdamW's two
        moments, and the activations of the largest batch. Attention scores are not
        kept, and logits never exist for more than a chunk of tokens.
        """
        vector = self.trained * self.item_bytes
        most = max((r.vectors(vector) for r in requests), default=0)
        tokens = max(TOKEN_BUDGET, self.sequence)
        return Memory(
            weights=float(self.weight_bytes),
            vectors=float((2 + most) * vector),
            activations=float(tokens * self.kept_per_token),
        )


@dataclass(frozen=True)
class Stage:
    """Passes of one stage: their number, how many are done, and the seconds left."""

    passes: int = 0
    responses: int = 0  #: Responses that all of the passes go over.
    done: int = 0
    """Passes that the store already has."""
    seconds: float = 0.0
    """Estimated seconds of the passes that the store lacks."""


@dataclass(frozen=True)
class CostEstimate:
    """Estimated time and memory that an experiment is going to take."""

    stages: dict[str, Stage]  #: By name of the stage.
    loading: float  #: Seconds of loading policies.
    after: float
    """Seconds of everything after the passes."""
    memory: Memory | None  #: Peak of one worker; None if nothing was timed.
    timing: Timing | None
    """None if the store has every pass, so that nothing was timed."""

    @property
    def seconds(self) -> float:
        """Seconds of all stages, of loading, and of everything after the passes."""
        passes = sum(stage.seconds for stage in self.stages.values())
        return passes + self.loading + self.after


def estimate_cost(
    experiment: Experiment[Config, Any], config: Config, store: Path
) -> CostEstimate:
    """Estimate an experiment's remaining time and its memory by timing small passes."""
    steps = experiment.steps()
    points = steps.plan(config)
    points = steps.expected(config, points, store)
    requests = requests_of(points)
    lacking = missing(requests, store)
    timing = None
    if lacking:
        path = lacking[0].subject.path
        # Together the points of a checkpoint have every kind of pass.
        own = [p for p in points if p.subject.path == path]
        every = requests_of(own)
        few, more = (excerpt(every, *size) for size in SIZES)
        timing = time_passes(replace(own[0].subject, advanced=None), few, more)
    stages, loading = _priced(requests, store, timing)
    after = 0.0
    if steps.seconds_after is not None:
        tokens = float(np.mean(timing.lengths)) if timing else float(config.max_tokens)
        after = steps.seconds_after(config, points, tokens)
    memory = None if timing is None else timing.memory(requests)
    return CostEstimate(stages, loading, after, memory, timing)


def _priced(
    requests: Iterable[Request], store: Path, timing: Timing | None
) -> tuple[dict[str, Stage], float]:
    stages: dict[str, Stage] = defaultdict(Stage)
    subjects: list[Subject] = []
    for request in dict.fromkeys(requests):
        name, done = request.stage, request.path(store).exists()
        before = stages[name]
        seconds = 0.0
        if not done and timing is not None:
            seconds = timing.rates[name].seconds(request)
            # The first pass of a stage also warms up caches and compiled kernels.
            if before.passes == before.done:
                seconds += timing.rates[name].first
            # A worker holds one policy, so every change of policy loads one.
            if not subjects or subjects[-1] != request.subject:
                subjects.append(request.subject)
        more = (1, request.rows, done, seconds)
        stages[name] = Stage(*map(operator.add, astuple(before), more))
    if timing is None:
        return dict(stages), 0.0
    return dict(stages), timing.first_load + (len(subjects) - 1) * timing.load


def excerpt(requests: Sequence[Request], prompts: int, group: int) -> list[Request]:
    """Return the first request of each stage, made small, after what it depends on.

    `prompts` is the size of an evaluation batch, `group` the number of an update
    batch's prompts and of responses to each.
    """
    template = next(r for r in requests if isinstance(r, Draw))
    problems = list(
        dict.fromkeys(p for r in requests if isinstance(r, Draw) for p in r.problems)
    )
    # Every fold of the evaluation batch needs a prompt of its own.
    prompts = max(prompts, *(getattr(r, "folds", 1) for r in requests))
    windows = max(getattr(r, "window", 1) for r in requests)

    def update_batch(least: int) -> Draw:
        # Whole groups: without a difference in reward a step has no backward pass.
        chosen = [p for p in problems[: max(group, least)] for _ in range(group)]
        return replace(template.of(chosen), subject=small(template.subject))

    def small(value: Any, name: str = "") -> Any:
        if isinstance(value, Subject):
            # At the checkpoint itself: steps before it would have to be taken first.
            return replace(value, advanced=None)
        if name == "batch" and isinstance(value, Source):
            return update_batch(1)
        if name == "draws":
            # One round of sampling, of at least a prompt for each of its steps.
            return (update_batch(windows),)
        if isinstance(value, Draw):
            few = value.of(problems[:prompts])
            return replace(few, subject=small(value.subject))
        if isinstance(value, RecordedResponses):
            # Copied from files in no time, whatever their number.
            return value
        if isinstance(value, tuple):
            # As many as there are: a product with several gradients costs by each.
            items = tuple(small(item) for item in value)
            # Shards of one batch: the first stands for all.
            alike = value and isinstance(value[0], Draw | Forward)
            return items[:1] if alike else items
        if hasattr(value, "__dataclass_fields__"):
            parts = {
                f.name: small(getattr(value, f.name), f.name) for f in fields(value)
            }
            return replace(value, **parts)
        return value

    chosen: dict[str, Request] = {}

    def add(request: Request) -> None:
        for need in request.inputs:
            add(need)
        chosen.setdefault(request.key, request)

    stages: set[str] = set()
    for request in requests:
        if request.stage not in stages:
            stages.add(request.stage)
            add(small(request))
    return list(chosen.values())


def time_passes(
    subject: Subject, few: Iterable[Request], more: Iterable[Request]
) -> Timing:
    """Run two small parts of a plan in a temporary store; return times and sizes."""
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    first: dict[str, float] = defaultdict(float)
    lengths: list[int] = []
    longest = 0
    with TemporaryDirectory() as folder:
        store = Path(folder)
        worker = Worker(store)
        first_load = seconds_of(lambda: worker.checkpoint(subject))
        load = first_load
        if first_load < _QUICK:
            # A new worker loads again, now without imports and with the files cached.
            worker = Worker(store)
            load = seconds_of(lambda: worker.checkpoint(subject))
        policy = worker.checkpoint(subject).policy
        for cold_start, requests in ((True, few), (False, more)):
            for request in requests:
                # Loaded outside the timing: `_priced` adds the seconds of loading.
                worker.checkpoint(request.subject)

                # Bound as a default: a closure would see the last request of the loop.
                def run(request: Request = request) -> None:
                    request.run(worker)

                cold = seconds_of(run) if cold_start else 0.0
                taken = _steady(run)
                stage = request.stage
                if cold_start:
                    first[stage] = max(first[stage], cold - taken)
                n = request.repeats
                seconds[stage].append((request.forwards * request.rows / n, taken / n))
                if isinstance(request, Draw):
                    rollouts = read_rollouts(request.path(store))
                    of_all = rollouts.full_length.tolist()
                    lengths += of_all
                    prompts = map(len, rollouts.prompt_tokens)
                    pairs = zip(prompts, of_all, strict=True)
                    longest = max(longest, *map(sum, pairs))
    rates = {name: fit_rate(t, first[name]) for name, t in seconds.items()}
    return Timing(rates, first_load, load, tuple(lengths), longest, *_sizes(policy))


def fit_rate(timed: Sequence[tuple[float, float]], first: float = 0.0) -> Rate:
    """Return the rate with the least relative errors on (cost, seconds) pairs.

    Relative, because a pass ten times as long says no more about the fixed part.
    """
    costs, t = np.array(timed, float).T
    # In units of the largest cost, or the solver takes the smaller column for rounding.
    unit = max(float(costs.max()), np.finfo(float).tiny)
    terms = np.stack([np.ones_like(costs), costs / unit], axis=1)
    (fixed, slope), _ = nnls(terms / t[:, None], np.ones_like(t))
    return Rate(float(fixed), float(slope / unit), first)


def seconds_of(work: Callable[[], object]) -> float:
    """Call `work`, and return the seconds that it took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _steady(work: Callable[[], object]) -> float:
    # The best of three, if the call is short, leaves out other load on the machine.
    once = seconds_of(work)
    return once if once > _QUICK else min(once, seconds_of(work), seconds_of(work))


def _sizes(policy: Policy) -> tuple[int, int, int, int, int]:
    # Parameters, trained parameters, bytes kept per token, bytes of a trained
    # parameter and of all.
    config: Any = policy.base.config
    width, heads = config.hidden_size, config.num_attention_heads
    head = getattr(config, "head_dim", None) or width // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    feed_forward = getattr(config, "intermediate_size", None) or 4 * width
    # A layer keeps the inputs of its norms and products, its queries, keys, values and
    # their mix, and both sides of its gate. In mixed precision all but the first, which
    # belong to the residual stream, are as narrow as the frozen weights.
    precision = policy.precision
    stream, products = 8 * width, 2 * (heads + 2 * kv_heads) * head + 4 * feed_forward
    kept = (
        stream * precision.dtype.itemsize + products * precision.frozen_dtype.itemsize
    )
    parameters = list(policy.model.parameters())
    return (
        sum(p.numel() for p in parameters),
        sum(p.numel() for p in policy.trained().values()),
        config.num_hidden_layers * kept,
        precision.dtype.itemsize,
        sum(p.numel() * p.element_size() for p in parameters),
    )
