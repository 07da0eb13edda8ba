"""MIS: responses on which engine and trainer disagree are dropped."""

from entrometer.interventions.engine import TRL_VLLM, log_mismatch
from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "mis",
    strength="most",
    strengths=(1.5, 3.0, 10.0),
    needs=("S_engine",),
    trl=TRL_VLLM
    + (
        '"sequence_mask", vllm_importance_sampling_clip_min={least}, '
        "vllm_importance_sampling_clip_max={most}"
    ),
    source="TRL",
    shares=("least",),
    positive=("most",),
)
def mis(
    tables: TokenTables,
    *,
    least: float = 0.0,
    most: float = 3.0,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""$\ell = M\,\ell_\text{Dr-GRPO}$ if $\text{least} \le M \le \text{most}$, else 0.

    $M = \prod_k e^{S_{\text{old},k} - S_{e,k}}$ over the response, with $S_e$ the
    log-prob by the engine that sampled: masked importance sampling by response, TRL's
    default with vLLM. The weight has no gradient.
    """
    m = log_mismatch(tables, "mis").sum(dim=1, keepdim=True).exp()
    weight = m.masked_fill((m < least) | (m > most), 0.0)
    return weight * dr_grpo(tables, low=low, high=high)
