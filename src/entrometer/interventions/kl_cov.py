"""KL-Cov: the tokens that entropy is lost by are held to the policy that sampled."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables, top


@register(
    "kl-cov",
    on_policy=False,
    strength="rho",
    strengths=(2e-4, 2e-3, 2e-2),
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.policy_loss.loss_mode=kl_cov "
        "actor_rollout_ref.actor.policy_loss.kl_cov_ratio={rho} "
        "actor_rollout_ref.actor.policy_loss.ppo_kl_coef={beta}"
    ),
    differs="statistics are of each micro-batch",
    source="arXiv 2505.22617",
    shares=("rho",),
)
def kl_cov(
    tables: TokenTables, *, rho: float = 2e-3, beta: float = 1.0
) -> Float[Tensor, "B T"]:
    r"""$\ell = -rA + \beta\,|\log r|\cdot[\text{among the top } c]$.

    $c = (A - \bar A)(S - \bar S)$, with means over the counted tokens, of which the
    $\max(1, \lfloor\rho N\rfloor)$ of the largest $c$ are held; the earlier of equal
    ones. There is no clip.

    $|x|$ has no derivative at 0, and torch takes 0 there. So where every ratio is 1, on
    the policy that sampled and in the first minibatch, nothing is held and the gradient
    is that of plain. The smallest step away, and it is $\pm\beta$ in full.

    $\rho$ is the paper's for 7B; it takes $2\cdot10^{-4}$ for 32B, and so does verl
    unless told. verl's `ppo_kl_coef` is 0.1 unless told, where the paper has 1. verl
    takes means and the top over each micro-batch: `micro_batch` does the same here.
    """
    S, A = tables.S.detach(), tables.A
    own = tables.mask
    c = (A - A[own].mean()) * (S - S[own].mean())
    N = int(own.sum())
    held = top(c, own, max(1, int(rho * N)))
    drift = (tables.S - tables.S_old).where(own, 0.0).abs()
    return -tables.ratio * A + beta * drift.where(held, 0.0)
