"""Passes over untrained models of each architecture, against central differences."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from benchmarks.architectures.families import (
    BY_FORWARD_MODE,
    VOCABULARY,
    WITH_RULES,
    small_model,
)
from benchmarks.harness import Check, Report
from benchmarks.random_tokens import as_rollouts
from entrometer import passes
from entrometer.calculus import dot, norm
from entrometer.errors import EntrometerError
from entrometer.estimators import GradientWeights
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, float64_only, ready
from entrometer.runs import Rollouts

# Of prompts and responses; the window of those that have one is shorter.
_LENGTHS = ((6, 18), (6, 11), (3, 14))
# Half the step of a central difference. In float32 the best of several: a long step
# changes which experts the routers choose, a short one is all rounding.
_STEPS = {Precision.FLOAT64: (1e-5,), Precision.FLOAT32: (3e-3, 1e-3, 3e-4)}
_LIMIT = {Precision.FLOAT64: 1e-7, Precision.FLOAT32: 1e-2}
# PEFT refuses the last projection of a state space.
_TARGETS = {
    "mamba2": ["in_proj"],
    "falcon_h1": ["in_proj", "q_proj", "v_proj", "up_proj"],
}
_PASSES = ("forward", "jvp", "vjp", "rows")


def run() -> Report:
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for precision, families in (
        (Precision.FLOAT64, WITH_RULES),
        (Precision.FLOAT32, BY_FORWARD_MODE),
    ):
        for family in families:
            for trained in ("adapters", "all parameters"):
                name = f"{family}, {trained}"
                figures[name] = _errors(family, trained, precision)
    checks = [
        Check("families", len(WITH_RULES | BY_FORWARD_MODE), at_least=15),
        Check("raw errors", sum("raw" in x for x in figures.values()), at_most=0),
    ]
    for precision, limit in _LIMIT.items():
        of = [x for x in figures.values() if x["precision"] == precision]
        for which in _PASSES:
            worst = max(x.get(which, np.inf) for x in of)
            name = f"largest error of {which}, {precision}"
            checks.append(Check(name, worst, at_most=limit))
    unexpected = sum(
        x["by"] != "tangent rules" for n, x in figures.items() if _has_rules(n)
    )
    checks.append(Check("known families without rules", unexpected, at_most=0))
    return Report(checks, figures)


def _has_rules(name: str) -> bool:
    return name.split(",")[0] in WITH_RULES


def _errors(family: str, trained: str, precision: Precision) -> dict[str, Any]:
    """Return the relative error of each pass; `raw` is an error that is no refusal."""
    found: dict[str, Any] = {"precision": precision.value, "by": ""}
    try:
        policy = _policy(family, trained, precision)
        if precision is Precision.FLOAT64:
            # Raises if any operation of any pass is below float64.
            with float64_only():
                found |= _compared(policy, precision)
        else:
            found |= _compared(policy, precision)
    except EntrometerError as error:
        found["refused"] = str(error)
    except Exception as error:
        found["raw"] = f"{type(error).__name__}: {error}"
    return found


def _compared(policy: Policy, precision: Precision) -> dict[str, Any]:
    rollouts = _rollouts()
    generator = torch.Generator().manual_seed(3)
    v = {
        n: 0.1 * torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p)
        for n, p in policy.trained().items()
    }
    jvp = passes.jvp(policy, rollouts, [v])
    tangents = jvp.tangents[0]
    weights = GradientWeights(
        *np.random.default_rng(0).normal(size=(2, rollouts.tokens))
    )
    gradient = passes.vjp(policy, rollouts, weights).gradient
    pulled = float(dot(gradient, v))
    found: dict[str, Any] = {
        "by": jvp.by,
        "forward": _apart(passes.forward(policy, rollouts).S, _plain(policy, rollouts)),
        "jvp": np.inf,
        "vjp": np.inf,
        "rows": _rows_apart(policy, rollouts, weights, gradient),
    }
    for step in _STEPS[precision]:
        after, before = passes.forward_along(policy, rollouts, v, [step, -step])
        dS, dH = ((a - b) / 2 / step for a, b in zip(after, before, strict=True))
        expected = weights.S @ dS + weights.H @ dH
        errors = {
            "jvp": max(_apart(tangents.dS, dS), _apart(tangents.dH, dH)),
            "vjp": abs(pulled - expected) / abs(expected),
        }
        found |= {n: min(found[n], error) for n, error in errors.items()}
    return found


def _apart(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def _rows_apart(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    gradient: Mapping[str, Tensor],
) -> float:
    """Return how far the sum of the sequences' gradients is from their gradient."""
    total: dict[str, Tensor] = {n: torch.zeros_like(g) for n, g in gradient.items()}
    for row in passes.per_sequence(policy, rollouts, weights):
        for n, g in row.gradients.items():
            total[n] += g.sum(0)
    error = norm({n: total[n] - g for n, g in gradient.items()})
    return float(error / norm(gradient))


def _plain(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    """Return S by the model's own logits, one sequence at a time."""
    parts = []
    both = zip(rollouts.prompt_tokens, rollouts.response_tokens, strict=True)
    for prompt, response in both:
        ids = torch.tensor(np.concatenate([prompt, response]))[None]
        with torch.no_grad():
            logits = policy.model(input_ids=ids, use_cache=False).logits[0]
        logp = logits[len(prompt) - 1 : -1].log_softmax(-1)
        parts.append(logp.gather(-1, torch.tensor(response)[:, None])[:, 0].double())
    return torch.cat(parts).numpy()


def _policy(family: str, trained: str, precision: Precision) -> Policy:
    model: nn.Module = small_model(family)
    if trained == "adapters":
        model = _adapted(model, _TARGETS.get(family, "all-linear"))
    return Policy(ready(model, precision), None, precision, family)


def _adapted(model: nn.Module, targets: str | list[str]) -> nn.Module:
    """Return the model with adapters; on all linear layers, experts are among them."""
    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM"
    )
    with (
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        adapted: nn.Module = get_peft_model(model, config).eval()
        for p in adapted.parameters():
            if p.requires_grad:
                p.add_(0.1 * torch.randn_like(p))
    return adapted


def _rollouts() -> Rollouts:
    rng = np.random.default_rng(0)
    drawn = [[rng.integers(3, VOCABULARY, n) for n in pair] for pair in _LENGTHS]
    return as_rollouts(*zip(*drawn, strict=True))
