"""TIS: truncated importance sampling corrects for the engine that sampled."""

from entrometer.interventions.engine import TRL_VLLM, log_mismatch
from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO, dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "tis",
    strength="cap",
    strengths=(1.0, 2.0, 5.0),
    needs=("S_engine",),
    trl=TRL_VLLM + '"token_truncate", vllm_importance_sampling_clip_max={cap}',
    verl=VERL_DR_GRPO
    + (
        "algorithm.rollout_correction.rollout_is=token "
        "algorithm.rollout_correction.rollout_is_threshold={cap} "
    )
    + VERL_CLIP,
    source="Yao et al. 2025",
    positive=("cap",),
)
def tis(
    tables: TokenTables, *, cap: float = 2.0, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = \min(m, C)\,\ell_\text{Dr-GRPO}$ with $m = e^{S_\text{old} - S_e}$.

    $S_e$ is the log-prob by the engine that sampled, $C$ is `cap`. The weight has no
    gradient. TRL's default for $C$ is 3, and it weights responses, not tokens.
    """
    weight = log_mismatch(tables, "tis").exp().clamp(max=cap)
    return weight * dr_grpo(tables, low=low, high=high)
