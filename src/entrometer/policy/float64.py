r"""True float64: not one operation below it on the path of a loaded model.

A transformers model cast to float64 still computes its norms, its rotary tables and its
eager softmax in float32, and keeps float32 roundings of the rotary frequencies (and of
Gemma's embedding scale), without a warning. Here those computations are replaced on the
loaded modules. The weights are the stored ones, widened; every other number is the
config's formula evaluated in float64.
"""

# Axes: B sequences, T tokens, F frequencies.

import math
import types
from typing import Any, cast

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from entrometer.policy.architectures import (
    NORMS,
    ROTARY,
    ROUTERS,
    SCALED_EMBEDDING,
    UnknownArchitecture,
    kind,
    norm_epsilon,
    norm_gain,
    require_known,
)
from entrometer.policy.attention import ATTENTION
from entrometer.policy.mixtures import DIFFERENTIABLE

FIXED_ROPE = {"default", "linear", "llama3", "yarn"}
"""Rotary scalings whose frequencies do not depend on the sequence at hand."""

_REMEDY = "use precision='float32'"


def true_float64(model: nn.Module) -> nn.Module:
    """Make a loaded model, plain or PEFT, compute in float64 alone, in place.

    Raises `UnknownArchitecture` for a model without rules. `float64_only` proves it for
    a given computation.
    """
    get: Any = getattr(model, "get_base_model", None)
    base: Any = get() if get is not None else model
    require_known(base, "precision='float64'")
    model.double()
    base.config.dtype = torch.float64
    for name, module in base.named_modules():
        if kind(module) in NORMS:
            module.forward = types.MethodType(_norm, module)
        elif kind(module) in ROTARY:
            _replace_rotary(module)
        elif kind(module) in ROUTERS:
            module.forward = types.MethodType(_router, module)
        elif kind(module) in SCALED_EMBEDDING:
            # Gemma 3 keeps the root of its width as a float32 buffer.
            module.embed_scale.fill_(math.sqrt(base.config.hidden_size))
        # A norm of another name would compute in float32 unnoticed.
        elif "Norm" in kind(module) or "Rotary" in kind(module):
            raise UnknownArchitecture(
                f"expected a known norm or rotary table at {name}, got {kind(module)}; "
                f"{_REMEDY}"
            )
    base.set_attn_implementation(ATTENTION)
    base.set_experts_implementation(DIFFERENTIABLE)
    return model


def _router(self: Any, x: Tensor) -> Any:
    # Its buffers, biases of a choice, were float32 when they were stored.
    with _Float32MeansFloat64():
        return type(self).forward(self, x)


def _norm(self: nn.Module, x: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    n = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm_epsilon(self))
    return n * norm_gain(self)


def _rotary(
    self: Any,
    x: Tensor,
    position_ids: Int[Tensor, "B T"],
    layer_type: str | None = None,
) -> tuple[Float64[Tensor, "B T F"], Float64[Tensor, "B T F"]]:
    prefix = "" if layer_type is None else f"{layer_type}_"
    angle = position_ids[..., None].double() * getattr(self, f"{prefix}inv_freq")
    # Twice, because the rotation pairs feature f with feature f + F. GPT-OSS rotates
    # the two halves by themselves.
    if kind(self) != "GptOssRotaryEmbedding":
        angle = torch.cat((angle, angle), dim=-1)
    scaling = getattr(self, f"{prefix}attention_scaling")
    return angle.cos() * scaling, angle.sin() * scaling


def _replace_rotary(module: Any) -> None:
    for layer_type in getattr(module, "layer_types", None) or [None]:
        prefix = "" if layer_type is None else f"{layer_type}_"
        frequencies = _exact_frequencies(module, layer_type)
        for name in (f"{prefix}inv_freq", f"{prefix}original_inv_freq"):
            if hasattr(module, name):
                module.register_buffer(name, frequencies.clone(), persistent=False)
    module.forward = types.MethodType(_rotary, module)


def _exact_frequencies(rotary: Any, layer_type: str | None) -> Float64[Tensor, " F"]:
    rope = rotary.rope_type if layer_type is None else rotary.rope_type[layer_type]
    if rope not in FIXED_ROPE:
        raise UnknownArchitecture(
            f"expected a rotary scaling of {', '.join(sorted(FIXED_ROPE))}, got "
            f"{rope!r}, which each forward recomputes in float32; {_REMEDY}"
        )
    default = rotary.compute_default_rope_parameters
    formula = default if rope == "default" else ROPE_INIT_FUNCTIONS[rope]
    which = {} if layer_type is None else {"layer_type": layer_type}
    with _Float32MeansFloat64():
        frequencies, _ = formula(rotary.config, **which)
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    loaded: Tensor = getattr(rotary, name)
    # What was loaded is the same formula in float32; anything further off means that
    # the module changed its frequencies after they were made.
    same = torch.allclose(frequencies.double(), loaded.double().cpu(), 1e-5, 0)
    if frequencies.dtype is not torch.float64 or not same:
        raise UnknownArchitecture(
            f"expected {name} to be what its config gives in float64, got other "
            f"frequencies; {_REMEDY}"
        )
    return cast(Tensor, frequencies.to(loaded.device))


class _Float32MeansFloat64(TorchFunctionMode):
    """Replaces float32 by float64 in the arguments of every torch function."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call `func` with float64 in place of float32."""

        def widen(x: Any) -> Any:
            return torch.float64 if x is torch.float32 else x

        func = torch.Tensor.double if func is torch.Tensor.float else func
        widened = {name: widen(x) for name, x in (kwargs or {}).items()}
        return func(*map(widen, args), **widened)
