"""What is done in a pass, whatever does it."""

from dataclasses import dataclass

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
    """FLOP in float32 of a policy that computes in less: its vocabulary head."""

    weights: Number = 0.0
    """Bytes of the policy, which every call reads."""

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.calls + other.calls,
            self.flop + other.flop,
            self.bytes + other.bytes,
            self.single + other.single,
            self.weights + other.weights,
        )

    def __mul__(self, times: Number) -> "Work":
        return Work(
            self.calls * times,
            self.flop * times,
            self.bytes * times,
            self.single * times,
            self.weights * times,
        )
