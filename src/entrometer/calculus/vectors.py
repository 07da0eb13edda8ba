"""Vectors of the size of the model: one tensor per parameter, keyed by its name.

Everything works tensor by tensor, so nothing but the result has the size of the model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.calculus.sharded import mesh_of, rows_of, sum_over
from entrometer.errors import MissingKey, ShapeMismatch, nearest_name

Vector: TypeAlias = Mapping[str, Tensor]


class LazyVector(Mapping[str, Tensor]):
    """A vector whose tensors are loaded one by one when they are used, and not kept."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Tensor]) -> None:
        """Set the names, and the function that loads the tensor of a name."""
        self._names = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._load(name)

    # Mapping's own would load the tensor to see whether the name is there.
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
            f"{len(got)}, missing {_listed(missing)}, extra {_listed(extra)}: build "
            f"both vectors from the trained parameters of one model.{hint}"
        )


def check_layout(expected: Vector, got: Vector) -> None:
    """Raise unless `got` has the names and the shapes of `expected`."""
    check_names(expected, got)
    for name, tensor in expected.items():
        other = got[name]
        if tensor.shape != other.shape:
            raise ShapeMismatch(
                f"parameter {name!r}: expected shape {tuple(tensor.shape)}, got "
                f"{tuple(other.shape)}: build both vectors from the same model."
            )
        if mesh_of(tensor) != mesh_of(other):
            raise ShapeMismatch(
                f"parameter {name!r}: expected both tensors in the shards of one group "
                "of processes, or both whole, got one of each: read both for the same "
                "group."
            )


def dot(a: Vector, b: Vector) -> Float64[Tensor, ""]:
    r"""Return the inner product $\sum_j a_j b_j$, multiplied and summed in float64.

    The result is on the device of the first tensor. Of vectors in shards, all processes
    of their group return it.
    """
    check_layout(a, b)
    total, mesh = torch.zeros((), dtype=torch.float64), None
    for name in a:
        here, other = a[name], b[name]
        mesh = mesh_of(here)
        chunks_a = torch.split(rows_of(here).reshape(-1), _CHUNK)
        chunks_b = torch.split(rows_of(other).reshape(-1), _CHUNK)
        for x, y in zip(chunks_a, chunks_b, strict=True):
            part = torch.dot(x.to(torch.float64), y.to(torch.float64))
            # A model may be spread over devices; 0-d tensors are cheap to move.
            total = part + total.to(part.device)
    return sum_over(mesh, total.to(next(iter(a.values())).device)) if a else total


def norm(a: Vector) -> Float64[Tensor, ""]:
    r"""Return the Euclidean norm $|a| = \sqrt{a \cdot a}$, accumulated in float64."""
    return dot(a, a).sqrt()


def add(a: Vector, b: Vector, *, scale: float = 1.0) -> dict[str, Tensor]:
    r"""Return the sum $a + \mathrm{scale} \cdot b$."""
    check_layout(a, b)
    return {name: torch.add(a[name], b[name], alpha=scale) for name in a}


def scale(a: Vector, factor: float) -> dict[str, Tensor]:
    r"""Return the multiple $\mathrm{factor} \cdot a$."""
    return {name: tensor * factor for name, tensor in a.items()}


def multiply(a: Vector, b: Vector) -> dict[str, Tensor]:
    r"""Return the elementwise product $a_j b_j$: a diagonal matrix times a vector."""
    check_layout(a, b)
    return {name: a[name] * b[name] for name in a}


def zeros_like(a: Vector) -> dict[str, Tensor]:
    """Return a zero vector with the names, shapes, precisions and devices of `a`."""
    return {name: torch.zeros_like(tensor) for name, tensor in a.items()}


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "none"
