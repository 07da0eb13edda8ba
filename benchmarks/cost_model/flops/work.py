"""What is done in a pass, whatever does it."""

from dataclasses import dataclass, fields

Number = int | float
"""A count, or an expected one."""


@dataclass(frozen=True)
class Work:
    """Calls of the model, FLOP and bytes; those of several passes add up."""

    calls: Number = 0.0
    """Of the model one after another: a token each in sampling, a batch each else."""

    flop: Number = 0.0
    """A multiplication and an addition are two."""

    bytes: Number = 0.0
    """Moved between memory and where it is computed on, but for `weights`."""

    single: Number = 0.0
    """FLOP in float32 of a policy that has other products in less."""

    weights: Number = 0.0
    """Bytes of the policy, which every call reads."""

    exchanged: Number = 0.0
    """Bytes that a process gets from, or sums with, the others of its group."""

    def __add__(self, other: "Work") -> "Work":
        names = [field.name for field in fields(self)]
        return Work(*(getattr(self, name) + getattr(other, name) for name in names))

    def __mul__(self, times: Number) -> "Work":
        return Work(*(getattr(self, field.name) * times for field in fields(self)))
