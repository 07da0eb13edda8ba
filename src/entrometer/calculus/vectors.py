"""Vectors of the size of the model: one tensor a parameter, keyed by its name.

Everything works tensor by tensor, so nothing of the size of the whole model is made
beside the result.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.errors import MissingKey, ShapeMismatch, nearest_name

Vector: TypeAlias = Mapping[str, Tensor]


class LazyVector(Mapping[str, Tensor]):
    """A vector whose tensors are loaded one by one when asked for, and not kept.

    It holds no memory, so what is as large as the model and seldom used need not be
    on the device, or in memory at all, before it is used.
    """

    def __init__(self, names: Iterable[str], load: Callable[[str], Tensor]) -> None:
        """Load the tensor of each of these names by calling `load`."""
        self._names = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


# Elements converted to float64 at once: 128 MiB, however large the tensor is.
_CHUNK = 1 << 24


def check_names(expected: Mapping[str, object], got: Mapping[str, object]) -> None:
    """Raise `MissingKey` unless `got` has exactly the names of `expected`."""
    missing = [name for name in expected if name not in got]
    extra = [name for name in got if name not in expected]
    if missing or extra:
        hint = nearest_name(missing[0], extra) if missing else ""
        hint = hint or (nearest_name(extra[0], expected) if extra else "")
        raise MissingKey(
            f"expected the {len(expected)} parameter names of the other vector; got "
            f"{len(got)}, missing {_few(missing)}, extra {_few(extra)}: build both "
            f"vectors from the same `trainable_parameters`.{hint}"
        )


def check_layout(expected: Vector, got: Vector) -> None:
    """Raise unless `got` has the names and the shapes of `expected`."""
    check_names(expected, got)
    for name, tensor in expected.items():
        if tensor.shape != got[name].shape:
            raise ShapeMismatch(
                f"parameter {name!r}: expected shape {tuple(tensor.shape)}, got "
                f"{tuple(got[name].shape)}: build both vectors from the same model."
            )


def dot(a: Vector, b: Vector) -> Float64[Tensor, ""]:
    r"""Inner product $\sum_j a_j b_j$, multiplied and summed in float64.

    The result is on the device of the first tensor.
    """
    check_layout(a, b)
    total = torch.zeros((), dtype=torch.float64)
    for name in a:
        chunks_a = torch.split(a[name].reshape(-1), _CHUNK)
        chunks_b = torch.split(b[name].reshape(-1), _CHUNK)
        for x, y in zip(chunks_a, chunks_b, strict=True):
            part = torch.dot(x.to(torch.float64), y.to(torch.float64))
            # A model may be spread over devices; 0-d tensors are cheap to move.
            total = part + total.to(part.device)
    return total.to(next(iter(a.values())).device) if a else total


def norm(a: Vector) -> Float64[Tensor, ""]:
    r"""Euclidean norm $|a| = \sqrt{a \cdot a}$, accumulated in float64."""
    return dot(a, a).sqrt()


def add(a: Vector, b: Vector, *, scale: float = 1.0) -> dict[str, Tensor]:
    r"""Sum $a + \mathrm{scale} \cdot b$."""
    check_layout(a, b)
    return {name: torch.add(a[name], b[name], alpha=scale) for name in a}


def scale(a: Vector, factor: float) -> dict[str, Tensor]:
    r"""Multiple $\mathrm{factor} \cdot a$."""
    return {name: tensor * factor for name, tensor in a.items()}


def multiply(a: Vector, b: Vector) -> dict[str, Tensor]:
    r"""Elementwise product $a_j b_j$: a diagonal matrix times a vector."""
    check_layout(a, b)
    return {name: a[name] * b[name] for name in a}


def zeros_like(a: Vector) -> dict[str, Tensor]:
    """Zero vector with the names, shapes, precisions and devices of `a`."""
    return {name: torch.zeros_like(tensor) for name, tensor in a.items()}


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "none"
