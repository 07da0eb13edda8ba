"""Quantities of complete responses, for losses that treat a response as one."""

# Axes: B responses, T tokens of a response.

from collections.abc import Iterator

from jaxtyping import Bool, Float
from torch import Tensor

from entrometer.interventions.tables import PerToken, TokenTables

PerResponse = Float[Tensor, "B 1"]  #: A number for each response.


def response_mean(x: PerToken, tables: TokenTables) -> PerResponse:
    """Return the mean over the counted tokens of each response; 0 if it has none."""
    counted = tables.mask.sum(dim=1, keepdim=True).clamp(min=1)
    return x.where(tables.mask, 0.0).sum(dim=1, keepdim=True) / counted


def log_ratio(tables: TokenTables) -> PerToken:
    r"""Return $S - S_\text{old}$ of each token, detached; 0 off the mask."""
    return (tables.S.detach() - tables.S_old).where(tables.mask, 0.0)


def unit(tables: TokenTables) -> PerToken:
    r"""Return $e^{S - \mathrm{sg}(S)}$: the value 1, with the derivative 1 in $S$.

    A weight times this has the weight as its derivative in the token's own $S$. The
    ratio of a response, $s = e^{\overline{\log r}}$, summed over its $T$ tokens has the
    same derivative $T\cdot s/T$, without the rounding of the sum.
    """
    S = tables.S.where(tables.mask, 0.0)
    return (S - S.detach()).exp()


def group_members(tables: TokenTables) -> Iterator[Bool[Tensor, " B"]]:
    """Yield the responses of each prompt group; those without counted tokens never."""
    present = tables.mask.any(dim=1)
    for group in tables.group[present].unique():
        yield present & (tables.group == group)


def response_advantages(tables: TokenTables) -> Float[Tensor, " B"]:
    """Return the mean advantage over the counted tokens of each response, else 0."""
    first = tables.mask.long().argmax(dim=1, keepdim=True)
    A = tables.A.where(tables.mask, 0.0).gather(1, first)
    # Exactly the advantage of the response if all its tokens have the same: a mean
    # would round it by its length, and equal rewards would differ.
    return (A + response_mean(tables.A - A, tables)).squeeze(1)
