"""Made-up comparisons of interventions whose numbers behave as real ones do."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from entrometer.runs.tables.compare import (
    CompareTables,
    FrontierPoint,
    Outcome,
    Remedy,
)

KNOWN = (
    *("entropy-bonus", "clip-higher", "kl-cov", "clip-cov", "cispo", "sapo", "grpo"),
    *("high-entropy", "negative-reinforced", "positive-only", "steer", "stare"),
    *("ce-gppo", "clip-b", "clip-v", "adaptive-bonus", "entrocraft", "quantile"),
)
PLAIN = {"entropy": -4e-3, "reward": 6e-3}
NOISE = {"entropy": 5e-4, "reward": 1.2e-3}
"""Standard error of a change; that of a difference from plain is a quarter."""
PRICES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0)


@dataclass(frozen=True)
class Shape:
    """What is made up."""

    checkpoints: Sequence[str] = ("checkpoint-40",)
    updates: Sequence[str] = ("recorded",)
    minibatches: Sequence[str] = ("1/1", "2/2")
    names: Sequence[str] = KNOWN
    strengths: int = 3
    idle: Sequence[str] = ("clip-higher", "clip-b", "sapo")
    """What does nothing in the first minibatch."""
    truth: bool = True


def comparison(shape: Shape, seed: int = 0) -> CompareTables:
    """Remedies that trade reward for entropy, below a frontier that trades better."""
    rng = np.random.default_rng(seed)
    made = CompareTables()
    for checkpoint in shape.checkpoints:
        for update in shape.updates:
            for minibatch in shape.minibatches:
                where = {
                    "checkpoint": checkpoint,
                    "update": update,
                    "minibatch": minibatch,
                    "eta": 3e-4,
                }
                made.outcomes.extend(_outcomes(where, shape, rng))
                made.frontier.extend(_frontier(where, rng))
    settings = dict.fromkeys((o.name, o.settings) for o in made.outcomes)
    made.remedies.extend(
        Remedy(
            name=name,
            settings=told,
            source="arXiv 2505.22617",
            trl='loss_type="dr_grpo", epsilon=0.2' if place % 2 else "",
            verl="actor_rollout_ref.actor.policy_loss.loss_mode=" + name
            if place % 3
            else "",
            differs="" if place % 4 else "statistics are of each micro-batch",
        )
        for place, (name, told) in enumerate(settings)
    )
    return made


def _outcomes(
    where: dict[str, Any], shape: Shape, rng: np.random.Generator
) -> list[Outcome]:
    options = [("dr-grpo", nan, True, 0.0, 0.0)]
    for place, name in enumerate(shape.names):
        idle = name in shape.idle and where["minibatch"].startswith("1/")
        trade = rng.uniform(0.1, 0.9)
        for k in range(shape.strengths):
            size = 0.0 if idle else (place / len(shape.names) - 0.17) * (0.5 + 0.5 * k)
            middle = k == shape.strengths // 2
            strength = nan if shape.strengths == 1 else 0.01 * 3**k
            options.append((name, strength, middle, size, trade))
    options.append(("frontier", nan, True, 0.4, -0.2))
    shared = {o: rng.normal() * NOISE[o] for o in PLAIN}
    rows = []
    for objective in PLAIN:
        for name, strength, tried, size, trade in options:
            true = {"entropy": 6e-3 * size, "reward": -5e-3 * size * trade}[objective]
            rows.append(
                _outcome(
                    {
                        **where,
                        "step": 40,
                        "share": 0.1,
                        "name": name,
                        "strength": strength,
                    },
                    tried,
                    objective,
                    true,
                    size,
                    shared[objective],
                    rng,
                    truth=shape.truth,
                )
            )
    return rows


def _outcome(
    where: dict[str, Any],
    tried: bool,
    objective: str,
    true: float,
    size: float,
    shared: float,
    rng: np.random.Generator,
    *,
    truth: bool,
) -> Outcome:
    se = NOISE[objective]
    gain_se = se / 4 if size else 0.0
    base = PLAIN[objective] + shared
    predicted_gain = true + gain_se * rng.normal() * 0.5
    seen = true * 0.95 + gain_se * rng.normal() * 0.5
    known = truth and tried
    strength = where["strength"]
    other = "" if tried or strength != strength else f":setting={strength:.3g}"
    gap = size < 0.7 and objective == "reward"
    return Outcome(
        **where,
        settings=f"{where['name']}{other}",
        tried=tried,
        changed=min(1.0, abs(size)),
        objective=objective,
        **_interval("predicted", base + predicted_gain, se),
        **_interval("gain", predicted_gain, gain_se),
        **_interval("elsewhere", PLAIN[objective] + true + se * rng.normal(), se),
        reformed=base + true if known else nan,
        **_interval("observed", base + seen if known else nan, se),
        **_interval("observed_gain", seen if known else nan, gain_se),
        **_interval("below", 1e-3 + 2e-3 * abs(size) if gap else nan, 8e-4),
    )


def _frontier(where: dict[str, Any], rng: np.random.Generator) -> list[FrontierPoint]:
    rows = []
    for place, price in enumerate(PRICES):
        h = -5e-3 + 1.6e-3 * place
        J = 8e-3 - 1.4e-4 * place**2
        rows.append(
            FrontierPoint(
                **where,
                price=price,
                kept=0.5,
                **_interval("entropy", h + 2e-4 * rng.normal(), 4e-4),
                **_interval("reward", J + 2e-4 * rng.normal(), 8e-4),
                fitted_entropy=h + 1e-3,
                fitted_reward=J + 3e-3,
            )
        )
    return rows


def _interval(name: str, value: float, se: float) -> dict[str, Any]:
    unknown = value != value
    return {
        name: value,
        f"{name}_se": nan if unknown else se,
        f"{name}_low": value - 2 * se,
        f"{name}_high": value + 2 * se,
    }
