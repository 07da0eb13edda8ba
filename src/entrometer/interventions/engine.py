"""Mismatch of the engine that sampled and the trainer, at the same parameters."""

from entrometer.interventions.plain import TRL_DR_GRPO
from entrometer.interventions.tables import PerToken, TokenTables

TRL_VLLM = TRL_DR_GRPO + ", use_vllm=True, vllm_importance_sampling_mode="


def log_mismatch(tables: TokenTables, who: str) -> PerToken:
    r"""Return $\log m = S_\text{old} - S_e$ of each token, 0 off the mask.

    $S_e$ is the log-prob by the engine that sampled, with its own numerics; $m$ makes
    its token count as one of the trainer's. It has no gradient.
    """
    S_engine: PerToken = tables.need("S_engine", who)
    return (tables.S_old - S_engine).where(tables.mask, 0.0)
