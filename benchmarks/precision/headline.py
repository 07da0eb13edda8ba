"""Matched pairs on SmolLM2 over six decades of learning rate, in three precisions."""

from typing import Any

import numpy as np
import torch

from benchmarks.harness import Check
from benchmarks.real_policy import arithmetic_rollouts, smollm2
from entrometer import calculus, passes
from entrometer.estimators import (
    GradientWeights,
    PositionFit,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
)
from entrometer.passes.batches import layout
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.runs.rollouts import Rollouts
from entrometer.tokens import centred_advantages

ETAS = (1e-10, 1e-8, 1e-6, 1e-4)
PROMPTS, GROUP, LIMIT = 8, 4, 48


def headline() -> tuple[list[Check], dict[str, Any]]:
    """Relative error |linear / true change - 1| of each precision and learning rate."""
    policy = smollm2("float64")
    rollouts = arithmetic_rollouts(policy, PROMPTS, group=GROUP, max_tokens=LIMIT)
    v = adam_like(policy, rollouts)
    errors = {"true float64": pair_errors(policy, rollouts, v)}
    slope = errors["true float64"].pop("linear_term")
    naive = smollm2("float32")
    naive.model.double()
    double = Policy(naive.model, naive.tokenizer, Precision.FLOAT64, naive.source)
    errors["naive float64"] = pair_errors(double, rollouts, v)
    single = smollm2("float32")
    v32 = {name: x.float() for name, x in v.items()}
    errors["float32"] = pair_errors(single, rollouts, v32)
    true = errors["true float64"]
    smallest = true["sequence"][0]
    checks = [
        Check("precision.pair.true_float64.1e-10", smallest, at_most=1e-6),
        Check(
            "precision.pair.true_float64.per_decision.1e-10",
            true["per_decision"][0],
            at_most=1e-6,
        ),
    ]
    figures = {
        "etas": list(ETAS),
        "pair_relative_error": errors,
        "responses": rollouts.count,
        "tokens": rollouts.tokens,
        "linear_term": slope,
        "length_of_v": calculus.norm(v).item(),
    }
    return checks, figures


def coin_loss(rollouts: Rollouts, groups: tuple[int, int]) -> GradientWeights:
    """Dr-GRPO's token weights, with rewards drawn by a coin."""
    rng = np.random.default_rng(1)
    rewards = torch.as_tensor(rng.integers(0, 2, size=groups).astype(float))
    A = centred_advantages(rewards).flatten().numpy() / (rollouts.count * LIMIT)
    columns = layout(rollouts).spread(-A)
    return GradientWeights(S=columns, H=np.zeros_like(columns))


def adam_like(
    policy: Policy, rollouts: Rollouts, groups: tuple[int, int] = (PROMPTS, GROUP)
) -> dict[str, torch.Tensor]:
    """The first AdamW update of a Dr-GRPO step, with rewards drawn by a coin."""
    gradient = passes.vjp(policy, rollouts, coin_loss(rollouts, groups)).gradient
    theta = policy.trained()
    hyper = calculus.AdamWHyperparameters((0.9, 0.999), 1e-8, dict.fromkeys(theta, 0.0))
    step = calculus.adamw_update(
        theta, gradient, calculus.AdamWState.fresh(theta), hyper, max_norm=1.0
    )
    return dict(step.update.direction)


def pair_errors(
    policy: Policy, rollouts: Rollouts, v: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """Errors over the learning rates of matched pairs, and of the original pairing."""
    found = passes.jvp(policy, rollouts, [v])
    here = passes.forward(policy, rollouts)
    there = passes.forward_along(policy, rollouts, v, ETAS)
    responses = layout(rollouts)
    changes: dict[str, list[float]] = {}
    slopes: dict[str, float] = {}
    for weighting in (Weighting.SEQUENCE, Weighting.PER_DECISION):
        sums = linear_statistics(
            responses, found.tables, found.tangents[0], weighting=weighting
        )
        slopes[weighting] = linear_term(sums).value
        changes[weighting] = [
            entropy_change(
                change_statistics(responses, here, t, weighting=weighting)
            ).value
            for t in there
        ]
    unmatched = _moving_average_slope(rollouts, found)
    pairs = {
        "sequence": (slopes["sequence"], changes["sequence"]),
        "per_decision": (slopes["per_decision"], changes["per_decision"]),
        "original pairing": (unmatched, changes["sequence"]),
    }
    return {
        name: [
            abs(eta * slope / change - 1)
            for eta, change in zip(ETAS, true, strict=True)
        ]
        for name, (slope, true) in pairs.items()
    } | {"linear_term": slopes["sequence"]}


def _moving_average_slope(rollouts: Rollouts, found: passes.JvpPass) -> float:
    responses, here = layout(rollouts), found.tables
    baseline = (
        PositionFit.of(responses, here, batch=0, positions=LIMIT)
        .solve()
        .predict(responses)
    )
    sums = linear_statistics(
        responses,
        here,
        found.tangents[0],
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=baseline,
    )
    return linear_term(sums).value
