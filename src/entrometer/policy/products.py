"""Products with weights that are held in a lower precision than what they multiply."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_NARROWED: ContextVar[bool] = ContextVar("narrowed", default=False)


@contextmanager
def narrowed_products() -> Iterator[None]:
    """Compute products in the precision of the weights inside this context."""
    token = _NARROWED.set(True)
    try:
        yield
    finally:
        _NARROWED.reset(token)


def are_narrowed() -> bool:
    """Return whether products are computed in the precision of the weights."""
    return _NARROWED.get()


def product(x: Tensor, W: Tensor) -> Tensor:
    """Return `x @ W`, in the wider of two precisions unless products are narrowed."""
    if x.dtype == W.dtype:
        return x @ W
    # A narrowed product keeps the precision of W, which is what a graph then stores.
    return x.to(W.dtype) @ W if are_narrowed() else x @ W.to(x.dtype)
