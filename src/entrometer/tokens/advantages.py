"""Advantages of the responses of a prompt group."""

# Axes: P prompts, G responses of a prompt.

from jaxtyping import Float
from torch import Tensor

from entrometer.errors import ShapeMismatch


def centred_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    r"""Dr-GRPO's advantage $A_g = r_g - \bar r$, with no division by a deviation."""
    return rewards - rewards.mean(dim=-1, keepdim=True)


def standardised_advantages(
    rewards: Float[Tensor, "P G"], *, epsilon: float = 1e-4
) -> Float[Tensor, "P G"]:
    r"""GRPO's advantage $A_g = (r_g - \bar r)/(\sigma + \epsilon)$ within the group.

    $\sigma$ is the sample deviation (over $G - 1$), as trainers compute it.
    """
    _require_group(rewards)
    deviation = rewards.std(dim=-1, keepdim=True, correction=1)
    return centred_advantages(rewards) / (deviation + epsilon)


def leave_one_out_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    r"""RLOO's advantage $A_g = r_g - \bar r_{-g} = \tfrac{G}{G-1}(r_g - \bar r)$.

    The mean of the *other* responses is independent of response $g$, so
    $\mathrm E[A_g \nabla S_g]$ is the policy gradient without bias.
    """
    _require_group(rewards)
    group = rewards.shape[-1]
    return centred_advantages(rewards) * (group / (group - 1))


def _require_group(rewards: Tensor) -> None:
    if rewards.shape[-1] < 2:
        raise ShapeMismatch(
            "expected at least 2 responses a prompt, got "
            f"{rewards.shape[-1]}; a group of one has no spread and no other member: "
            "sample more responses or use centred advantages over the batch"
        )
