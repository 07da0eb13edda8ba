"""A bonus for entropy whose strength follows the entropy."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.entropy_bonus import entropy_bonus
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


def _next_settings(settings: dict[str, float], entropy: float) -> dict[str, float]:
    step = settings["delta"] if entropy <= settings["target"] else -settings["delta"]
    alpha = min(max(settings["alpha"] + step, 0.0), settings["largest"])
    return settings | {"alpha": alpha}


@register(
    "adaptive-bonus",
    strength="alpha",
    strengths=(0.003, 0.01, 0.03),
    adapt=_next_settings,
    trl=(
        'loss_type="dr_grpo", scale_rewards="none", epsilon={low}, '
        "epsilon_high={high}, use_adaptive_entropy=True, entropy_coef={alpha}, "
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
) -> Float[Tensor, "B T"]:
    r"""The entropy bonus $-\alpha\bar H$ while $\bar H \le$ `target`; else plain.

    Between steps $\alpha$ goes up by `delta` if $\bar H \le$ `target`, else down, and
    stays in [0, `largest`]. Defaults are TRL's but for $\alpha$, which TRL starts at 0;
    Skywork has a `delta` of 1e-4 and a `largest` of 5e-3. TRL decides whether the bonus
    is paid by the entropy of the step before, this one by that of the batch itself.
    """
    paid = alpha if tables.mean_entropy <= target else 0.0
    return entropy_bonus(tables, alpha=paid, low=low, high=high)
