"""Hidden states as torch differentiates them in forward mode, without rules of ours."""

# Axes: M = 1 + D blocks, B sequences, T tokens, C features.

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from entrometer import calculus
from entrometer.calculus import Vector
from entrometer.passes.batches import Batch
from entrometer.policy.adapted_parameters import functional_wrappers
from entrometer.policy.attention import ATTENTION
from entrometer.policy.mixtures import DIFFERENTIABLE
from entrometer.policy.policy import Policy


def forward_mode(
    policy: Policy, directions: Sequence[Vector], batch: Batch
) -> Float[Tensor, "M B T C"]:
    """Return hidden states in block 0, their tangents in the others."""
    trained = policy.trained()
    names = hidden_names(policy, directions[0])
    params = {name: trained[name] for name in names}
    f = hidden_function(policy, batch)
    # Only the head moves: hidden states have no tangent, which `calculus.jvp` rejects.
    if not names:
        with torch.no_grad():
            (h,) = f({})
        return torch.stack([h, *(torch.zeros_like(h) for _ in directions)])
    passes = [
        calculus.jvp(f, params, {name: v[name] for name in names}) for v in directions
    ]
    return torch.stack([passes[0].outputs[0], *(p.first[0] for p in passes)])


def hidden_names(policy: Policy, direction: Vector) -> list[str]:
    """Return the names of the direction that the hidden states depend on."""
    # A head that is tied to the embedding moves the hidden states, an untied one not.
    base: Any = policy.base
    embedding, head = base.get_input_embeddings(), base.get_output_embeddings()
    untied = embedding.weight is not head.weight
    return [name for name in direction if not (untied and name == policy.head_name)]


def hidden_function(policy: Policy, batch: Batch) -> Callable[[Vector], tuple[Tensor]]:
    """Return a function from trained parameters to the hidden states of a batch."""
    wrapped = _Hidden(policy)

    def f(params: Vector) -> tuple[Tensor]:
        named = {f"model.{name}": p for name, p in params.items()}
        return (functional_call(wrapped, named, (batch,)),)

    return f


class _Hidden(nn.Module):
    """Module that returns hidden states; its parameters keep the model's names."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.model = policy.model
        self.policy = policy

    def forward(self, batch: Batch) -> Tensor:
        return self.policy.hidden(batch.input_ids, **batch.inputs)


@contextmanager
def differentiable(policy: Policy) -> Iterator[None]:
    """Use attention and experts with forward derivatives inside this context."""
    # The fused kernels of transformers' defaults have none.
    base: Any = policy.base
    attention = base.config._attn_implementation
    experts = base.config._experts_implementation
    base.set_attn_implementation(ATTENTION)
    base.set_experts_implementation(DIFFERENTIABLE)
    try:
        with functional_wrappers(policy.model):
            yield
    finally:
        base.set_attn_implementation(attention)
        base.set_experts_implementation(experts)
