"""GSPO: the ratio and its clip are those of the complete response."""

from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.responses import log_ratio, response_mean, unit
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "gspo",
    on_policy=False,
    strength="high",
    strengths=(4e-4, 4e-3, 4e-2),
    trl=(
        'loss_type="dr_grpo", scale_rewards="none", '
        'importance_sampling_level="sequence", epsilon={low}, epsilon_high={high}'
    ),
    verl=VERL_DR_GRPO
    + "actor_rollout_ref.actor.policy_loss.loss_mode=gspo "
    + VERL_CLIP,
    source="arXiv 2507.18071",
)
def gspo(tables: TokenTables, *, low: float = 3e-4, high: float = 4e-4) -> PerToken:
    r"""$\ell = -\min(sA,\ \mathrm{clip}(s, 1-\epsilon_{low}, 1+\epsilon_{high})A)$.

    $s = \exp\big(\frac1T\sum_k\log r_k\big)$ is the geometric mean of the ratios of the
    response's $T$ tokens, so all of them are clipped or none. The gradient of a token
    is $sA$: at ratio 1 it is plain Dr-GRPO's.

    The published loss divides by $T$; here it has Dr-GRPO's mean like the others.
    LUSPO (arXiv 2602.05261), the published loss times $T$, is this one times the
    length limit. TRL warns that this mean weights a response by its length. verl clamps
    $\log s$ from above to 10.
    """
    s = response_mean(log_ratio(tables), tables).exp()
    return clipped_surrogate(s * unit(tables), tables.A, clip_low=low, clip_high=high)
