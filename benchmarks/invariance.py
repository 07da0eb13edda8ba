"""The same numbers for any batching, padding and order, on SmolLM2."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Check, Report
from benchmarks.real_policy import arithmetic_rollouts, random_vector, smollm2
from entrometer import passes
from entrometer.calculus import add, norm
from entrometer.estimators import GradientWeights
from entrometer.passes.batches import layout
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

LIMITS = {"float64": 1e-10, "float32": 1e-4}


def run() -> Report:
    checks = []
    for precision, limit in LIMITS.items():
        policy = smollm2(precision, std=0.01)
        rollouts = arithmetic_rollouts(policy, prompts=4, group=2, max_tokens=24)
        for what, error in errors(policy, rollouts).items():
            checks.append(Check(f"invariance.{precision}.{what}", error, at_most=limit))
    return Report(checks)


def variants(rollouts: Rollouts) -> Iterator[tuple[str, Rollouts, dict[str, Any]]]:
    longest = max(len(p) for p in rollouts.prompt_tokens) + int(rollouts.length.max())
    yield "one_by_one", rollouts, {"budget": 1}
    yield "three_at_a_time", rollouts, {"budget": 3 * longest}
    yield "left_padding", rollouts, {"padding": "left"}
    yield "reversed", rollouts.select(np.arange(rollouts.count)[::-1]), {}


def errors(policy: Policy, rollouts: Rollouts) -> dict[str, float]:
    """Largest relative difference of each quantity from all in one batch."""
    v = random_vector(policy, 0.01)
    weights = np.random.default_rng(0).normal(size=(2, rollouts.tokens))
    whole = measure(policy, rollouts, v, weights, {})
    found: dict[str, float] = {}
    for name, other, options in variants(rollouts):
        order = _tokens_of(rollouts, other)
        got = measure(policy, other, v, weights[:, order], options)
        for what, column in whole.columns.items():
            expected = column[order]
            error = np.linalg.norm(got.columns[what] - expected)
            key = f"{name}.{what}"
            found[key] = float(error / np.linalg.norm(expected))
        difference = add(got.gradient, whole.gradient, scale=-1.0)
        size = norm(whole.gradient).item()
        found[f"{name}.gradient"] = norm(difference).item() / size
    return found


class _Measured:
    def __init__(self, columns: dict[str, np.ndarray], gradient: Any) -> None:
        self.columns, self.gradient = columns, gradient


def measure(
    policy: Policy,
    rollouts: Rollouts,
    v: Any,
    weights: np.ndarray,
    options: dict[str, Any],
) -> _Measured:
    tables = passes.forward(policy, rollouts, **options)
    tangents = passes.jvp(policy, rollouts, [v], **options).tangents[0]
    token_weights = GradientWeights(S=weights[0], H=weights[1])
    gradient = passes.vjp(policy, rollouts, token_weights, **options).gradient
    return _Measured({**tables._asdict(), **tangents._asdict()}, gradient)


def _tokens_of(whole: Rollouts, part: Rollouts) -> np.ndarray:
    """Where the tokens of reordered rollouts lie in the columns of the whole."""
    number: dict[tuple[int, int], int] = {
        (int(p), int(s)): i
        for i, (p, s) in enumerate(zip(whole.prompt, whole.seed, strict=True))
    }
    rows = [number[int(p), int(s)] for p, s in zip(part.prompt, part.seed, strict=True)]
    return layout(whole).columns(np.array(rows))
