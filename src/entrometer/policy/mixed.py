r"""Mixed precision: frozen matrices in bfloat16, everything else in float32.

Values, such as log-probabilities and their finite changes, are computed in float32: a
module widens its own matrix for the time of its call. So memory stays at two bytes per
frozen parameter, and values are those of a float32 model whose frozen weights were
rounded to bfloat16. Derivatives may compute products with frozen matrices in bfloat16
(`bfloat16_products`): their relative error is that of one rounding, while the finite
change of a small step is a difference in which such a rounding would be all that is
left.
"""

# Axes: B sequences, T tokens, C features.

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from entrometer.errors import InvalidValue
from entrometer.policy.adapted_parameters import is_wrapper
from entrometer.policy.architectures import (
    EXPERTS,
    SCALED_EMBEDDING,
    UnknownArchitecture,
    kind,
    require_known,
)
from entrometer.policy.attention import attention
from entrometer.policy.attention_keys import (
    AllowedKeys,
    Mask,
    SharedKeys,
    allowed_keys,
)
from entrometer.policy.fused_attention import shared_attention
from entrometer.policy.mixtures import DIFFERENTIABLE
from entrometer.policy.products import are_narrowed, narrowed_products

if TYPE_CHECKING:
    from entrometer.policy.policy import Policy

_REMEDY = "use precision='float32'"

_FUSED = "entrometer_bfloat16"
_IN_CHUNKS = "entrometer_widened"
"""Attention of inputs in two precisions; the second where logits have caps or sinks."""


def require_adapter(has_adapter: bool, got: str) -> None:
    """Raise `InvalidValue` for a policy in which nothing is frozen."""
    if not has_adapter:
        raise InvalidValue(
            "expected a policy with an adapter for precision='mixed', which holds "
            f"frozen weights in bfloat16, got {got}, whose parameters are all trained; "
            f"{_REMEDY}"
        )


def mixed(model: nn.Module) -> nn.Module:
    """Make a model with adapters hold its frozen matrices in bfloat16, in place.

    Raises `InvalidValue` if nothing is frozen, and `UnknownArchitecture` for a model
    whose modules are not known.
    """
    get: Any = getattr(model, "get_base_model", None)
    base: Any = get() if get is not None else model
    frozen = [p for p in model.parameters() if not p.requires_grad]
    require_adapter(bool(frozen), kind(base))
    require_known(base, "precision='mixed'")
    for name, module in model.named_modules():
        if is_wrapper(module):
            # PEFT rounds the low-rank change of a parameter to its precision, and most
            # of the change would be lost.
            raise UnknownArchitecture(
                "expected adapters on linear layers for precision='mixed', got one on "
                f"the parameter {module.parameter_name!r} at {name}; {_REMEDY}"
            )
    held = {id(p) for module in model.modules() for p in _matrices(module)}
    for p in frozen:
        # Gains, biases and routers are few, but rounded like the matrices: a checkpoint
        # that is stored in bfloat16 loses nothing.
        rounded = p.data.to(torch.bfloat16)
        p.data = rounded if id(p) in held else rounded.float()
    for p in model.parameters():
        if p.requires_grad:
            p.data = p.data.float()
    for module in model.modules():
        if next(_matrices(module), None) is not None:
            _replace_forward(module, base.config.hidden_size)
    base.config.dtype = torch.float32
    # Transformers' own kernels take experts and tokens of one precision.
    base.set_experts_implementation(DIFFERENTIABLE)
    return model


def _matrices(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the frozen parameters of a module that are held in bfloat16."""
    if isinstance(module, nn.Linear | nn.Embedding) or kind(module) in EXPERTS:
        experts = kind(module) in EXPERTS
        for p in module.parameters(recurse=False):
            # The biases of experts have two axes.
            if not p.requires_grad and p.ndim >= (3 if experts else 2):
                yield p


def _replace_forward(module: nn.Module, width: int) -> None:
    own: Any = module
    # Experts are multiplied by `mixtures.experts`, which widens them one by one.
    if isinstance(module, nn.Linear):
        own.forward = types.MethodType(_linear, own)
    elif isinstance(module, nn.Embedding):
        own.forward = types.MethodType(_embedding, own)
        if kind(module) in SCALED_EMBEDDING:
            # Made in the precision of loading, in which its root has three digits.
            scale = torch.tensor(width**0.5, dtype=torch.float32)
            own.embed_scale = scale.to(own.weight.device)


def _linear(self: Any, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
    if not are_narrowed():
        return nn.functional.linear(x, self.weight.to(x.dtype), self.bias)
    y: Tensor = nn.functional.linear(x.to(self.weight.dtype), self.weight)
    return y if self.bias is None else (y + self.bias).to(y.dtype)


def _embedding(self: Any, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
    # Widened after the rows are chosen: the table may be the largest of all matrices.
    # The residual stream begins here, so all of its sums are then in float32.
    x = nn.functional.embedding(ids, self.weight, self.padding_idx).float()
    return x * self.embed_scale if kind(self) in SCALED_EMBEDDING else x


@contextmanager
def bfloat16_products(policy: "Policy") -> Iterator[None]:
    """Compute products with frozen matrices, and attention, in bfloat16.

    Sums of the residual stream, norms, adapters and routers stay in float32. For
    derivatives only; a policy of another precision computes as before.
    """
    if policy.precision != "mixed":
        yield
        return
    base: Any = policy.base
    before = base.config._attn_implementation
    base.set_attn_implementation(_FUSED if before == "sdpa" else _IN_CHUNKS)
    try:
        with narrowed_products():
            yield
    finally:
        base.set_attn_implementation(before)


def _fused(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **other: Any
) -> Any:
    if isinstance(mask, SharedKeys):
        # Where it has no fused kernel it computes in the precision of its inputs.
        fused = mask.plain and q.shape[-1] == v.shape[-1]
        q, k, v = (x.bfloat16() if fused else x.float() for x in (q, k, v))
        return shared_attention(module, q, k, v, mask, **other)
    if isinstance(mask, AllowedKeys):
        ranges = (slice(0, n) for n in (len(q), q.shape[2], k.shape[2]))
        mask = mask.rows(*ranges)
    # The rotation widens queries and keys but not values; the kernels take one type.
    q, k, v = (x.bfloat16() for x in (q, k, v))
    return sdpa_attention_forward(module, q, k, v, mask, **other)


def _in_chunks(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **other: Any
) -> Any:
    return attention(module, q.float(), k.float(), v.float(), mask, **other)


for _name, _function in ((_FUSED, _fused), (_IN_CHUNKS, _in_chunks)):
    AttentionInterface.register(_name, _function)
    AttentionMaskInterface.register(_name, allowed_keys)
