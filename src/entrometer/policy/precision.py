"""What a policy computes in, and the spy that proves it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from entrometer.errors import EntrometerError


class Precision(StrEnum):
    """What every policy says of itself."""

    FLOAT32 = "float32"
    """The default."""

    FLOAT64 = "float64"
    """True: not one operation below float64 on the path, or refused."""

    BFLOAT16 = "bfloat16"
    """The model's own, to measure cost."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        dtype: torch.dtype = getattr(torch, self.value)
        return dtype


_BELOW = {
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.complex64,
    torch.complex32,
}


class PrecisionLost(EntrometerError, ArithmeticError):
    """A computation below the precision that was promised."""


class LowPrecisionSpy(TorchDispatchMode):
    """Counts every operation whose result is a float below float64."""

    def __init__(self) -> None:
        """Start with nothing found."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[str] = Counter()
        self.operations = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation and look at what it returns."""
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.dtype in _BELOW:
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
