"""Adaptive entropy bonus: its coefficient rises while the entropy is below a target."""

from entrometer.interventions.entropy_bonus import entropy_bonus
from entrometer.interventions.plain import TRL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


def _next_settings(settings: dict[str, float], entropy: float) -> dict[str, float]:
    step = settings["delta"] if entropy <= settings["target"] else -settings["delta"]
    alpha = min(max(settings["alpha"] + step, 0.0), settings["largest"])
    return settings | {"alpha": alpha}


@register(
    "adaptive-bonus",
    strength="alpha",
    strengths=(0.003, 0.01, 0.03),
    adapt=_next_settings,
    trl=TRL_DR_GRPO
    + (
        ", use_adaptive_entropy=True, entropy_coef={alpha}, "
        "entropy_coef_delta={delta}, entropy_coef_max={largest}, "
        "entropy_target={target}"
    ),
    differs="TRL goes by the entropy of the step before",
    source="arXiv 2505.22312",
)
def adaptive_bonus(
    tables: TokenTables,
    *,
    alpha: float = 0.01,
    delta: float = 5e-3,
    largest: float = 1.0,
    target: float = 0.2,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""The entropy bonus $-\alpha\bar H$ while $\bar H \le$ `target`; else plain.

    After each step $\alpha$ rises by `delta` if $\bar H \le$ `target` and falls by it
    otherwise, within [0, `largest`]. The defaults are TRL's except for $\alpha$, which
    TRL starts at 0; Skywork uses a `delta` of 1e-4 and a `largest` of 5e-3.
    """
    coefficient = alpha if tables.mean_entropy <= target else 0.0
    return entropy_bonus(tables, alpha=coefficient, low=low, high=high)
