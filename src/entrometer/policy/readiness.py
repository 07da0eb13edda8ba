"""What is done to every model before it is measured."""

import torch
from torch import nn

from entrometer.errors import InvalidValue, nearest_name
from entrometer.policy.precision import Precision


def as_precision(precision: Precision | str) -> Precision:
    """Return the precision of that name, or raise `InvalidValue`."""
    names = [p.value for p in Precision]
    if precision not in names:
        raise InvalidValue(
            f"expected a precision among {', '.join(names)}; got {precision!r}."
            f"{nearest_name(precision, names)}"
        )
    return Precision(precision)


def as_device(device: torch.device | str) -> torch.device:
    """Return a device that a tensor can be put on here, or raise `InvalidValue`."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        # Torch's first line tells it; the others are about where it noticed.
        why = (str(error).splitlines() or [""])[0]
        raise InvalidValue(
            f"expected a device of this machine, as cpu or cuda:1; got {device!r} "
            f"({why})."
        ) from error


def ready(
    model: nn.Module, precision: Precision, device: torch.device | str = "cpu"
) -> nn.Module:
    """Return the model in evaluation mode, computing in `precision` on `device`.

    Only parameters are converted. Buffers such as rotary frequencies stay in float32,
    as transformers keeps them, unless float64 is promised: that replaces them.

    The embedding of the padding token becomes a row like the others. Torch drops its
    gradient in reverse mode but keeps its tangent in forward mode, so where text holds
    the padding token, often the end token too, the two would disagree.
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    for p in model.parameters():
        p.data = p.data.to(precision.dtype)
    if precision is Precision.FLOAT64:
        # The only precision that rewrites modules; the others need not import it.
        from entrometer.policy.float64 import true_float64

        model = true_float64(model)
    return model.to(device).eval()
