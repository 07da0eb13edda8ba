"""KL-Cov: a KL penalty on the tokens of largest covariance."""

from entrometer.interventions.plain import VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables, top


@register(
    "kl-cov",
    on_policy=False,
    strength="rho",
    strengths=(2e-4, 2e-3, 2e-2),
    verl=VERL_DR_GRPO
    + (
        "actor_rollout_ref.actor.policy_loss.loss_mode=kl_cov "
        "actor_rollout_ref.actor.policy_loss.kl_cov_ratio={rho} "
        "actor_rollout_ref.actor.policy_loss.ppo_kl_coef={beta}"
    ),
    differs="statistics are of each micro-batch",
    source="arXiv 2505.22617",
    shares=("rho",),
)
def kl_cov(tables: TokenTables, *, rho: float = 2e-3, beta: float = 1.0) -> PerToken:
    r"""$\ell = -rA + \beta\,|\log r|\cdot[\text{among the top } c]$.

    $c = (A - \bar A)(S - \bar S)$ with means over the counted tokens; the
    $\max(1, \lfloor\rho N\rfloor)$ tokens of the largest $c$ are penalised, on ties the
    earlier ones. There is no clip.

    Where every ratio is 1, torch's derivative of $|\log r|$ is 0 and the loss is plain;
    at any other ratio the penalty has the gradient $\pm\beta$.

    $\rho$ is the paper's value for 7B; for 32B, and by default in verl, it is
    $2\cdot10^{-4}$. verl's `ppo_kl_coef` is 0.1 by default, the paper's 1. verl takes
    the means and the top of each micro-batch: set `micro_batch` for the same here.
    """
    S, A, mask = tables.S.detach(), tables.A, tables.mask
    c = (A - A[mask].mean()) * (S - S[mask].mean())
    penalised = top(c, mask, max(1, int(rho * int(mask.sum()))))
    log_ratio = (tables.S - tables.S_old).where(mask, 0.0).abs()
    return -tables.ratio * A + beta * log_ratio.where(penalised, 0.0)
