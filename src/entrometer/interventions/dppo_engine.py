"""DPPO against the engine that sampled, instead of the trainer's own log-probs."""

from dataclasses import replace

from entrometer.interventions.dppo import dppo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "dppo-engine",
    strength="high",
    strengths=(0.05, 0.15, 0.3),
    needs=("S_engine",),
    source="arXiv 2602.04879",
    positive=("cap",),
)
def dppo_engine(
    tables: TokenTables, *, low: float = 0.15, high: float = 0.15, cap: float = 20.0
) -> PerToken:
    r"""DPPO with $S_e$, the log-prob by the engine that sampled, as $S_\text{old}$.

    Its ratio $e^{S - S_e}$ corrects for the engine and for earlier minibatches at once,
    and a token stops by the change of its probability from the engine's: the paper's
    own form. `dppo` compares with the trainer's log-prob, as verl does.
    """
    S_engine: PerToken = tables.need("S_engine", "dppo-engine")
    return dppo(replace(tables, S_old=S_engine), low=low, high=high, cap=cap)
