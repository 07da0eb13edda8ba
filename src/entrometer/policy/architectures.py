"""Architectures whose modules are known, and what their norms compute with."""

# Axes: C features of a norm.

from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from entrometer.errors import EntrometerError

_DENSE = (
    *("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Gemma2", "Gemma3"),
    *("Phi3", "Olmo2", "Glm4", "Granite", "SmolLM3"),
)
_MIXTURES = ("Mixtral", "Qwen3Moe", "Glm4Moe", "DeepseekV3", "GptOss")
_FAMILIES = (*_DENSE, *_MIXTURES)
_GAIN_FROM_ONE = {"GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm"}

KNOWN = {f"{family}ForCausalLM" for family in _FAMILIES}
"""Models whose every computation outside the modules below is linear or exact."""

NORMS = {f"{family}RMSNorm" for family in _FAMILIES}
ROTARY = {f"{family}RotaryEmbedding" for family in _FAMILIES}
# What GPT-OSS calls an MLP holds a router and experts.
GATED_MLP = {f"{family}MLP" for family in _FAMILIES if family != "GptOss"}
SCALED_EMBEDDING = {f"{family}TextScaledWordEmbedding" for family in _FAMILIES}
ROUTERS = {f"{family}Top{k}Router" for family in _MIXTURES for k in "Kk"}
EXPERTS = {f"{family}Experts" for family in _MIXTURES}


class UnknownArchitecture(EntrometerError, NotImplementedError):
    """A model or module that the rules for heads, float64 or tangents do not cover."""


def kind(module: nn.Module) -> str:
    """Return the name of the module's class."""
    return type(module).__name__


def require_known(base: nn.Module, promise: str) -> None:
    """Raise unless the model is one of the known architectures."""
    if kind(base) not in KNOWN:
        raise UnknownArchitecture(
            f"expected one of {', '.join(sorted(KNOWN))} for {promise}, got "
            f"{kind(base)}; use precision='float32' and forward-mode differentiation"
        )


def norm_epsilon(norm: Any) -> float:
    """Return the constant that an RMSNorm adds under its root."""
    return float(
        norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps
    )


def norm_gain(norm: nn.Module) -> Float[Tensor, " C"]:
    """Return the gain of an RMSNorm: its weight, or 1 + weight for Gemma."""
    weight = cast(Tensor, norm.weight)
    return 1.0 + weight if kind(norm) in _GAIN_FROM_ONE else weight
