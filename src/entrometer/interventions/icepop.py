"""IcePop: tokens on which engine and trainer disagree are dropped."""

from entrometer.interventions.engine import TRL_VLLM, log_mismatch
from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "icepop",
    strength="most",
    strengths=(2.0, 5.0, 10.0),
    needs=("S_engine",),
    trl=TRL_VLLM
    + (
        '"token_mask", vllm_importance_sampling_clip_min={least}, '
        "vllm_importance_sampling_clip_max={most}"
    ),
    source="arXiv 2510.18855",
    shares=("least",),
    positive=("most",),
)
def icepop(
    tables: TokenTables,
    *,
    least: float = 0.5,
    most: float = 5.0,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""$\ell = m\,\ell_\text{Dr-GRPO}$ if $\text{least} \le m \le \text{most}$, else 0.

    $m = e^{S_\text{old} - S_e}$ with $S_e$ the log-prob by the engine that sampled; it
    has no gradient.
    """
    m = log_mismatch(tables, "icepop").exp()
    weight = m.masked_fill((m < least) | (m > most), 0.0)
    return weight * dr_grpo(tables, low=low, high=high)
