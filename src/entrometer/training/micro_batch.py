"""What one forward and backward pass of a trainer shows, and the weights of its tokens.

Imports neither transformers nor TRL, so that it works in the environment of verl, which
wants an earlier transformers.
"""

# Axes: B responses of a micro-batch, P prompt tokens, T response tokens, F rewards.

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Data of one forward and backward pass, detached, on the trainer's device."""

    row: Int[Tensor, " B"]  #: Index in the generation window over all processes.
    group: Int[Tensor, " B"]  #: Index of the prompt group, which shares a baseline.
    prompt_ids: Int[Tensor, "B P"]  #: Prompts, padded on the left.
    prompt_mask: Int[Tensor, "B P"]  #: 1 on prompt tokens.
    response_ids: Int[Tensor, "B T"]  #: Responses, padded on the right.
    response_mask: Int[Tensor, "B T"]  #: 1 on the tokens that enter the loss.
    rewards: Float[Tensor, "B F"]  #: Of each reward function; NaN where it was None.
    advantage: Float[Tensor, "B _"]  #: Of each response, or of each of its tokens.
    S: Float[Tensor, "B T"]  #: Log-probability under the policy that is being updated.
    #: Log-probability under the sampling policy; S itself if it is the same policy.
    S_old: Float[Tensor, "B T"]
    H: Float[Tensor, "B T"]  #: Entropy of each next-token distribution, in nats.
    #: $-\partial L/\partial S$ of the update's loss L, as backpropagation had it.
    alpha: Float[Tensor, "B T"]
    gamma: Float[Tensor, "B T"]  #: $-\partial L/\partial H$, likewise.
    #: Log-probability under the reference policy; None without one.
    S_ref: Float[Tensor, "B T"] | None = None
    #: Log-probability by the inference engine that sampled; None if it tells none.
    S_engine: Float[Tensor, "B T"] | None = None
    #: 0 on tokens that the policy did not write, such as a tool's output; None if it
    #: wrote all of them.
    written_mask: Int[Tensor, "B T"] | None = None


class LossTables:
    """S and H of a loss, and what backpropagation brings to them.

    Every loss of a trainer reaches the parameters through these two tables, so the
    gradients at them are the weights of the tokens in the update, whatever the loss is:
    its clipping, its divisor, a KL to a reference and an entropy bonus are in them.
    """

    def __init__(self, S: Tensor, H: Tensor) -> None:
        self.S, self.H = S.detach(), H.detach()
        self._gradients: dict[str, Tensor] = {}
        for name, table in (("alpha", S), ("gamma", H)):
            # Without a graph, as the entropy of some trainers, nothing flows back.
            if table.requires_grad:
                table.register_hook(partial(self._gradients.__setitem__, name))

    def weights(self, unit: float) -> dict[str, Tensor]:
        """Return alpha and gamma, after the backward pass.

        `unit` is the part of a gradient at the tables that enters the update's: one
        over the number of processes, divided by the scale of a gradient scaler.
        """
        return {
            name: -unit * self._gradients.get(name, torch.zeros_like(self.S)).float()
            for name in ("alpha", "gamma")
        }
