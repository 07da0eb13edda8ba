"""Time of each pass over a bare forward of the same tokens, on SmolLM2, two threads."""

# Axes: N scored tokens, C features, V vocabulary.

import gc
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.harness import Check, Report
from benchmarks.real_policy import arithmetic_rollouts, random_vector, smollm2
from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.passes.batches import batches
from entrometer.passes.forward import head_of
from entrometer.passes.head import VocabularyHead
from entrometer.policy.loading import load_policy
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

ROUNDS = 5
Job = Callable[[], object]


def run() -> Report:
    torch.set_num_threads(2)
    policy = smollm2("float32", std=0.01)
    rollouts = arithmetic_rollouts(policy, prompts=4, group=4, max_tokens=48)
    jobs = passes_over(policy, rollouts)
    bare, again = bare_forward(policy, rollouts), reverse(policy, rollouts)
    ratio = {name: alternate(bare, job) for name, job in jobs.items()}
    own_reverse = alternate(again, jobs["per_sequence"])
    # Afterwards, so that its directions do not take memory from the passes above.
    ratio["jvp.full_parameters"] = full_parameters(rollouts)
    further = (ratio["jvp.3_directions"] - ratio["jvp"]) / 2
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "rounds": ROUNDS,
        "responses": rollouts.count,
        "over_bare": {name: round(r, 3) for name, r in ratio.items()},
        "bare_over_merged": round(alternate(*merged_and_bare(policy, rollouts)), 3),
        "bare_over_body_and_our_head": round(
            alternate(body_and_head(policy, rollouts), bare), 3
        ),
    }
    return Report(
        [
            Check("passes.forward", ratio["forward"], at_most=1.15),
            Check("passes.vjp", ratio["vjp"], at_most=2.3),
            Check("passes.jvp", ratio["jvp"], at_most=2.2),
            Check("passes.jvp.full", ratio["jvp.full_parameters"], at_most=3.0),
            Check("passes.jvp.each_further_direction", further, at_most=1.3),
            Check("passes.per_sequence_over_reverse", own_reverse, at_most=1.15),
            Check("passes.head.memory_2048_over_512", head_memory(), at_most=1.1),
        ],
        figures,
    )


def alternate(base: Job, job: Job) -> float:
    """Median over rounds of the time of a job over that of the base just before it."""
    base(), job()
    ratios = []
    for _ in range(ROUNDS):
        first, second = seconds(base), seconds(job)
        ratios.append(second / first)
    return median(ratios)


def seconds(job: Job) -> float:
    gc.collect()
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def bare_forward(policy: Policy, rollouts: Rollouts) -> Job:
    """The model with its adapter as PEFT runs it: logits of the same batches."""
    prepared = list(batches(rollouts, device=policy.device))

    def job() -> None:
        with torch.no_grad():
            for b in prepared:
                policy.model(input_ids=b.input_ids, use_cache=False, **b.inputs)

    return job


def body_and_head(policy: Policy, rollouts: Rollouts) -> Job:
    """A stricter base: the layers as PEFT runs them, then our head on scored tokens."""
    prepared = list(batches(rollouts, device=policy.device))
    head = head_of(policy, rollouts)()

    def job() -> None:
        with torch.no_grad():
            for b in prepared:
                h = policy.hidden(b.input_ids, **b.inputs)
                head.forward(b.at_scored(h), b.targets)

    return job


def merged_and_bare(policy: Policy, rollouts: Rollouts) -> tuple[Job, Job]:
    merged = smollm2("float32", std=0.01)
    model: Any = merged.model
    plain = Policy(
        model.merge_and_unload(), merged.tokenizer, merged.precision, merged.source
    )
    return bare_forward(plain, rollouts), bare_forward(policy, rollouts)


def full_parameters(rollouts: Rollouts) -> float:
    """Time of a jvp along all parameters over a bare forward of the plain model."""
    policy = load_policy("smollm2", precision="float32")
    v = random_vector(policy, 0.001)
    assert passes.jvp(policy, rollouts.select(np.arange(1)), [v]).by == "tangent rules"
    job = partial(passes.jvp, policy, rollouts, [v], padding="right")
    return alternate(bare_forward(policy, rollouts), job)


def reverse(policy: Policy, rollouts: Rollouts) -> Job:
    """Forward and backward of the same tokens: what rows of gradients are held to."""
    weights = token_weights(rollouts)
    return lambda: passes.vjp(policy, rollouts, weights, padding="right")


def passes_over(policy: Policy, rollouts: Rollouts) -> dict[str, Job]:
    weights = token_weights(rollouts)
    v = [random_vector(policy, 0.01, seed) for seed in range(3)]
    return {
        # One row per response, as the bare forward has them: `shared_prompts` measures
        # what sharing saves.
        "forward": lambda: passes.forward(policy, rollouts, padding="right"),
        "vjp": lambda: passes.vjp(policy, rollouts, weights, padding="right"),
        "jvp": lambda: passes.jvp(policy, rollouts, v[:1], padding="right"),
        "jvp.3_directions": lambda: passes.jvp(policy, rollouts, v, padding="right"),
        "per_sequence": lambda: [
            rows.rows for rows in passes.per_sequence(policy, rollouts, weights)
        ],
    }


def token_weights(rollouts: Rollouts) -> GradientWeights:
    S, H = np.random.default_rng(0).normal(size=(2, rollouts.tokens))
    return GradientWeights(S=S, H=H)


def head_memory() -> float:
    """Peak memory of the head at 2,048 tokens over that at 512, the larger pass."""
    generator = torch.Generator().manual_seed(0)
    head = VocabularyHead(torch.randn(49152, 576, generator=generator))
    peaks = {}
    for N in (512, 2048):
        h, dh = torch.randn(2, N, 576, generator=generator)
        y = torch.randint(49152, (N,), generator=generator)
        with _LiveBytes() as live:
            head.forward(h, y)
            head.jvp(h, dh[None], y, [None])
        peaks[N] = live.peak
    return float(peaks[2048] / peaks[512])


class _LiveBytes(TorchDispatchMode):
    """Bytes of the tensors that operations have made and that are still alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self.seen: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, Tensor):
                self._add(x)
        return result

    def _add(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage.data_ptr()
        if key in self.seen or key == 0:
            return
        self.seen.add(key)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, key, storage.nbytes())

    def _drop(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size
