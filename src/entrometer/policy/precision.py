"""Precisions that a policy can compute in, and a check that nothing falls below one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from entrometer.errors import EntrometerError, InvalidValue, nearest_name
from entrometer.policy.float64 import true_float64
from entrometer.policy.mixed import mixed


class Precision(StrEnum):
    """Precision that a policy computes in."""

    FLOAT32 = "float32"  #: The default.
    FLOAT64 = "float64"  #: Not one operation below it, or the model is refused.
    BFLOAT16 = "bfloat16"  #: Precision of most stored models; to measure cost only.
    MIXED = "mixed"
    """Frozen matrices in bfloat16, an adapter in float32; for large models."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of the trained parameters, and of directions and gradients in them."""
        name = "float32" if self is Precision.MIXED else self.value
        return cast(torch.dtype, getattr(torch, name))

    @property
    def frozen_dtype(self) -> torch.dtype:
        """Type of the frozen weights."""
        return torch.bfloat16 if self is Precision.MIXED else self.dtype


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
    """Return the torch device; raise `InvalidValue` if this machine lacks it.

    `auto` is the accelerator of this machine, or the CPU without one.
    """
    if device == "auto":
        # None on a machine that has no accelerator, or one that does not work.
        found = torch.accelerator.current_accelerator(check_available=True)
        device = found or "cpu"
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        # The first line has the reason; the others are where torch noticed it.
        why = (str(error).splitlines() or [""])[0]
        raise InvalidValue(
            f"expected a device of this machine, like cpu or cuda:1; got {device!r} "
            f"({why})."
        ) from error


def ready(
    model: nn.Module, precision: Precision, device: torch.device | str | None = "cpu"
) -> nn.Module:
    """Return the model in evaluation mode, computing in `precision` on `device`.

    None leaves its tensors where they are.
    """
    for module in model.modules():
        # Torch drops the padding row's gradient in reverse mode but keeps its tangent
        # in forward mode. Where text contains the padding token, which is often the
        # end token too, the two would disagree; so it becomes a row like the others.
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    if precision is Precision.MIXED:
        return _placed(mixed(model), device).eval()
    # Parameters only: buffers such as rotary frequencies stay in float32, as
    # transformers keeps them, unless true float64 replaces them.
    for p in model.parameters():
        p.data = p.data.to(precision.dtype)
    if precision is Precision.FLOAT64:
        model = true_float64(model)
    return _placed(model, device).eval()


def _placed(model: nn.Module, device: torch.device | str | None) -> nn.Module:
    return model if device is None else model.to(device)


_BELOW_FLOAT64 = {
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.complex64,
    torch.complex32,
}


class PrecisionLost(EntrometerError, ArithmeticError):
    """A computation was below float64 where only float64 is allowed."""


class LowPrecisionSpy(TorchDispatchMode):
    """Counts all `operations`, and in `found` those with a result below float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[str] = Counter()
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and count it if its result is below float64."""
        # Below autograd: the operations of backward passes are seen too.
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.dtype in _BELOW_FLOAT64:
                self.found[f"{func} -> {leaf.dtype}"] += 1
        return result


@contextmanager
def float64_only() -> Iterator[LowPrecisionSpy]:
    """Raise at the end if anything inside computed below float64."""
    with LowPrecisionSpy() as spy:
        yield spy
    if spy.found:
        raise PrecisionLost(
            f"expected float64 alone, got {dict(spy.found.most_common(5))}; "
            "use precision='float32' for this model, or report its architecture"
        )
