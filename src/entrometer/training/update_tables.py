"""The tables of a whole update, from those of its micro-batches and processes."""

# Axes: B responses, T tokens of a response, N responses of an update.

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from entrometer.interventions import PLAIN, Intervention, TokenTables, intervention

CHANGED = 1e-6
"""Relative difference from which a token is pulled on otherwise."""


class Rows(NamedTuple):
    """Some responses of an update, detached: in float64, on the processor.

    So a statistic is the same whatever the device, and so is what is drawn by lot.
    """

    row: Int[Tensor, " B"]
    S: Float[Tensor, "B T"]
    H: Float[Tensor, "B T"]
    S_old: Float[Tensor, "B T"]
    A: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    concentration: Float[Tensor, "B T"] | None = None


def rows_of(
    inputs: Mapping[str, Any],
    S: Float[Tensor, "B T"],
    H: Float[Tensor, "B T"],
    concentration: Float[Tensor, "B T"] | None = None,
) -> Rows:
    """The rows of one of TRL's micro-batches."""
    mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    S_old, A = inputs.get("old_per_token_logps"), inputs["advantages"]
    A = A if A.ndim == 2 else A[:, None]
    return Rows(
        row=inputs["row"].cpu(),
        S=_exact(S),
        H=_exact(H),
        # TRL leaves it out where the policy that samples is the one that is updated.
        S_old=_exact(S if S_old is None else S_old),
        A=_exact(A.expand_as(S)),
        mask=mask.bool().cpu(),
        concentration=None if concentration is None else _exact(concentration),
    )


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after another; those of another length are padded on the right."""
    longest = max(part.S.shape[1] for part in parts)

    def column(tables: Sequence[Tensor | None]) -> Tensor | None:
        if tables[0] is None:
            return None
        return torch.cat([_padded(x, longest) for x in tables if x is not None])

    return Rows(*(column(tables) for tables in zip(*parts, strict=True)))  # type: ignore[arg-type]


def in_order(rows: Rows) -> Rows:
    """By their places in the window, whichever process had them."""
    order = rows.row.argsort()
    return Rows(*(None if x is None else x[order] for x in rows))  # type: ignore[arg-type]


def tables_of(
    rows: Rows, *, group_size: int, length_limit: int, seed: int, progress: float
) -> TokenTables:
    """What an intervention sees of them."""
    return TokenTables(
        S=rows.S,
        H=rows.H,
        S_old=rows.S_old,
        A=rows.A,
        mask=rows.mask,
        group=rows.row // group_size,
        length_limit=length_limit,
        concentration=rows.concentration,
        seed=seed,
        progress=progress,
    )


class Pull(NamedTuple):
    """How the loss of a batch pulls on each of its tokens."""

    alpha: Float[Tensor, "B T"]
    r"""$-\partial L/\partial S$."""

    gamma: Float[Tensor, "B T"]
    r"""$-\partial L/\partial H$."""

    changed: Bool[Tensor, "B T"]
    r"""Whether $\alpha$ is another than that of plain Dr-GRPO."""

    loss: float
    """$L$ itself."""

    def at(self, places: Int[Tensor, " n"], length: int) -> "Pull":
        """Of some of the responses, cut to the length that they are padded to."""
        return Pull(
            alpha=self.alpha[places, :length],
            gamma=self.gamma[places, :length],
            changed=self.changed[places, :length],
            loss=self.loss,
        )


def pull(chosen: Intervention, tables: TokenTables) -> Pull:
    """Pull of an intervention, beside that of plain Dr-GRPO."""
    alpha, gamma = chosen.coefficients(tables)
    plain = intervention(PLAIN).coefficients(tables).alpha
    larger = torch.maximum(alpha.abs(), plain.abs())
    changed = (alpha - plain).abs() > CHANGED * larger
    return Pull(alpha, gamma, changed, float(chosen.loss(tables)))


def _exact(table: Tensor) -> Tensor:
    return table.detach().cpu().double()


def _padded(table: Tensor, length: int) -> Tensor:
    return pad(table, (0, length - table.shape[1])) if table.ndim == 2 else table
