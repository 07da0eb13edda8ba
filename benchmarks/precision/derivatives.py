"""Forward-mode derivatives against central differences, and the spy on operations."""

import numpy as np
import torch

from benchmarks.harness import Check
from benchmarks.real_policy import arithmetic_rollouts, random_vector, smollm2
from entrometer import passes
from entrometer.policy.policy import Policy
from entrometer.policy.precision import LowPrecisionSpy, Precision
from entrometer.runs.rollouts import Rollouts

STEP = 1e-5


def smollm2_checks() -> list[Check]:
    policy = smollm2("float64", std=0.01)
    rollouts = arithmetic_rollouts(policy, prompts=2, group=1, max_tokens=24)
    return derivative_checks("precision.smollm2", policy, rollouts, 0.01)


def naive_error() -> float:
    """The same difference of dS for the model after a plain cast to float64."""
    single = smollm2("float32", std=0.01)
    rollouts = arithmetic_rollouts(single, prompts=2, group=1, max_tokens=24)
    single.model.double()
    naive = Policy(single.model, single.tokenizer, Precision.FLOAT64, single.source)
    v = random_vector(naive, 0.01)
    return _errors(naive, rollouts, v)["dS"]


def derivative_checks(
    name: str, policy: Policy, rollouts: Rollouts, size: float
) -> list[Check]:
    """Relative differences of jvp and differences, and operations below float64.

    The direction is small enough that the third derivative, times the square of the
    step, stays below the limit.
    """
    v = random_vector(policy, size)
    with LowPrecisionSpy() as spy:
        errors = _errors(policy, rollouts, v)
    return [
        Check(f"{name}.operations_below_float64", spy.found.total(), at_most=0),
        *(
            Check(f"{name}.{tangent}.relative_error", error, at_most=1e-7)
            for tangent, error in errors.items()
        ),
    ]


def _errors(
    policy: Policy, rollouts: Rollouts, v: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Relative difference of forward-mode derivatives and central differences."""
    tangents = passes.jvp(policy, rollouts, [v]).tangents[0]
    ahead, behind = passes.forward_along(policy, rollouts, v, [STEP, -STEP])
    differences = {
        "dS": (ahead.S - behind.S) / (2 * STEP),
        "dH": (ahead.H - behind.H) / (2 * STEP),
    }
    return {
        name: float(np.linalg.norm(difference - exact) / np.linalg.norm(exact))
        for (name, difference), exact in zip(differences.items(), tangents, strict=True)
    }
