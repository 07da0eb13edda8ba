"""Mixed precision on SmolLM2: jvp, vjp and finite changes against float64, memory."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import Check, Report, memory_growth
from benchmarks.precision.headline import adam_like, coin_loss
from benchmarks.real_policy import arithmetic_rollouts, smollm2
from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.passes.batches import Padding
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, ready
from entrometer.runs.rollouts import Rollouts

ETAS = (1e-6, 1e-5)
GROUPS = (2, 4)
"""Prompts, and responses to each."""
LIMIT = 64
PADDINGS: tuple[Padding | None, ...] = (None, "right", "left")
LOW = (Precision.FLOAT32, Precision.MIXED, Precision.BFLOAT16)


def run() -> Report:
    torch.set_num_threads(1)
    exact = policy_in(Precision.FLOAT64)
    rollouts = arithmetic_rollouts(
        policy_in(Precision.FLOAT32), GROUPS[0], group=GROUPS[1], max_tokens=LIMIT
    )
    v = adam_like(exact, rollouts, GROUPS)
    truth = _passes(exact, rollouts, v)
    del exact
    changes = {f"{eta:g}": x for eta, x in zip(ETAS, truth["changes"], strict=True)}
    errors: dict[str, Any] = {}
    for precision in LOW:
        policy = policy_in(precision)
        errors[precision.value] = _errors(_passes(policy, rollouts, v), truth)
        errors[precision.value]["bytes per parameter"] = _bytes(policy)
    for name, peak in _peaks().items():
        errors[name]["peak MiB"] = peak
    single, mixed = errors["float32"], errors["mixed"]
    checks = [
        Check(name, mixed[name], at_most=limit)
        for name, limit in {
            "dS, tokens": 0.03,
            "dH, tokens": 0.07,
            "dS, mean": 0.04,
            "dH, mean": 0.02,
            "dH, mean, over errors of tokens": 3.0,
            "vjp of entropy": 0.02,
            "vjp of loss": 0.06,
            "bytes per parameter": 2.2,
        }.items()
    ]
    checks += [
        Check(
            f"error of the change at {eta} over float32's",
            mixed[f"change at {eta}"] / single[f"change at {eta}"],
            at_most=1.5,
        )
        for eta in changes
    ]
    figures = {
        "errors": errors,
        "changes in float64": changes,
        "dH, mean, in float64": float(truth["dH"][0].mean()),
        "dS, mean, in float64": float(truth["dS"][0].mean()),
        "responses": rollouts.count,
        "tokens": rollouts.tokens,
    }
    return Report(checks, figures)


def policy_in(precision: Precision) -> Policy:
    """The policy with frozen weights rounded to bfloat16, computing in a precision.

    All precisions then have the same policy, and differ in arithmetic alone; but
    bfloat16 also rounds the adapter, which it cannot hold otherwise.
    """
    # An adapter that has been trained: at B = 0 half of the derivatives vanish.
    policy = smollm2("float32", std=0.01)
    for p in policy.model.parameters():
        if not p.requires_grad:
            p.data = p.data.bfloat16().float()
    model = ready(policy.model, precision)
    return Policy(model, policy.tokenizer, precision, policy.source)


def _passes(
    policy: Policy, rollouts: Rollouts, v: Mapping[str, Tensor]
) -> dict[str, Any]:
    here = passes.forward(policy, rollouts)
    there = passes.forward_along(policy, rollouts, v, ETAS)
    # The order of sums decides how products round: several draws of the same error.
    along = [passes.jvp(policy, rollouts, [v], padding=x) for x in PADDINGS]
    K = rollouts.tokens
    entropy = GradientWeights(S=np.zeros(K), H=np.full(K, 1 / K))
    weights = [entropy, coin_loss(rollouts, GROUPS)]
    gradients = passes.vjps(policy, rollouts, weights).gradients
    return {
        "dS": np.stack([x.tangents[0].dS for x in along]),
        "dH": np.stack([x.tangents[0].dH for x in along]),
        "by": along[0].by,
        "gradients": [_flat(g) for g in gradients],
        "changes": [float(x.H.mean() - here.H.mean()) for x in there],
    }


def _errors(found: Mapping[str, Any], truth: Mapping[str, Any]) -> dict[str, Any]:
    """Relative errors; of finite changes also the change itself."""
    errors: dict[str, Any] = {"jvp by": found["by"]}
    for name in ("dS", "dH"):
        errors[f"{name}, tokens"] = _apart(found[name], truth[name])
        means, expected = found[name].mean(1), truth[name][0].mean()
        off = np.sqrt(np.mean((means - expected) ** 2))
        errors[f"{name}, mean"] = float(off / abs(expected))
        # What the mean would be off by if errors of tokens were independent.
        spread = (found[name] - truth[name]).std() / np.sqrt(found[name].shape[1])
        errors[f"{name}, mean, over errors of tokens"] = float(off / spread)
    for which, mine, theirs in zip(
        ("entropy", "loss"), found["gradients"], truth["gradients"], strict=True
    ):
        errors[f"vjp of {which}"] = _apart(mine, theirs)
    for eta, mine, theirs in zip(ETAS, found["changes"], truth["changes"], strict=True):
        errors[f"change at {eta:g}"] = abs(mine / theirs - 1)
        errors[f"change of entropy at {eta:g}"] = mine
    return errors


def _apart(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def _flat(vector: Mapping[str, Tensor]) -> np.ndarray:
    parts = [vector[name].double().flatten() for name in sorted(vector)]
    return torch.cat(parts).numpy()


def _bytes(policy: Policy) -> float:
    parameters = list(policy.model.parameters())
    size = sum(p.numel() * p.element_size() for p in parameters)
    return size / sum(p.numel() for p in parameters)


def _peaks() -> dict[str, float]:
    """Memory that loading an adapter and one run of each pass take, in MiB."""
    with TemporaryDirectory() as folder:
        policy = smollm2("float32", std=0.01)
        directory = Path(folder) / "adapter"
        policy.model.save_pretrained(str(directory))  # type: ignore[operator]
        module = "benchmarks.mixed_precision.memory"
        return {
            p.value: memory_growth(module, [p.value, str(directory)])["anonymous"]
            for p in LOW
        }
