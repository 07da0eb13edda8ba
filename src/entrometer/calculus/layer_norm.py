"""Layer normalisation that may be differentiated forward more than once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode


def composite_layer_norm(
    input: Float[Tensor, "..."],
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Float[Tensor, "..."]:
    r"""Layer norm $w\,(x - \bar x) / \sqrt{\mathrm{var}(x) + \epsilon} + b$, in parts.

    Takes the arguments of `torch.layer_norm`; a switch for cuDNN has no meaning here.
    """
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dim=dims, keepdim=True)
    variance = centred.square().mean(dim=dims, keepdim=True)
    normal = centred * (variance + eps).rsqrt()
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


class CompositeLayerNorm(TorchFunctionMode):
    """Within this context every layer norm is `composite_layer_norm`.

    torch's own one has a second forward derivative that is silently wrong: its rule
    holds the saved mean and variance constant (pytorch/pytorch#196700).
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, or the composite in place of layer norm."""
        if func in (torch.nn.functional.layer_norm, torch.layer_norm):
            func = composite_layer_norm
        return func(*args, **(kwargs or {}))
