r"""Predict one coefficient of another implementation from ours, and say how."""

# Axes: B responses, T tokens of a response.

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from entrometer.conformance.difference import relative_difference
from entrometer.conformance.normalisers import Factor, slots
from entrometer.conformance.scenarios import Scenario
from entrometer.interventions import TokenTables


@dataclass(frozen=True)
class Reason:
    """Why two implementations differ, and how far they are apart apart from that."""

    parts: tuple[str, ...]  #: What is different.
    rest: float  #: Largest relative difference that the parts leave.
    normaliser_only: bool  #: Whether every part is a normaliser.

    @property
    def text(self) -> str:
        """All parts in one line."""
        return "; ".join(self.parts)


@dataclass(frozen=True)
class Coefficient:
    """One coefficient on all scenarios, by both implementations."""

    scenarios: Sequence[Scenario]
    ours: Sequence[Tensor]
    theirs: Sequence[Tensor]

    @property
    def rest(self) -> float:
        """Largest relative difference."""
        return max(map(relative_difference, self.theirs, self.ours))

    def times(self, factor: Factor) -> "Coefficient":
        """Return these with ours multiplied by a factor."""
        pairs = zip(self.ours, self.scenarios, strict=True)
        return replace(self, ours=[x * factor(s) for x, s in pairs])


def explain(
    tables: Coefficient,
    fixed: dict[str, Factor],
    by_micro_batch: dict[str, Factor],
    tolerance: float,
    *,
    normaliser_only: bool,
) -> Reason:
    """Return what predicts the coefficients, or the normaliser that comes closest."""
    if tables.rest <= tolerance:
        return Reason((), tables.rest, True)
    factors = fixed | by_micro_batch
    named: dict[tuple[str, ...], Coefficient] = {(): tables}
    named |= {(name,): tables.times(factor) for name, factor in factors.items()}
    for parts, scaled in named.items():
        if scaled.rest <= tolerance:
            return Reason(parts, scaled.rest, parts[0] in fixed if parts else True)
    value = _best_constant(tables)
    if value:
        scaled = tables.times(lambda s: value)
        if scaled.rest <= tolerance:
            return Reason((f"a constant factor of {value:.6g}",), scaled.rest, True)
    closest = min(named, key=lambda parts: named[parts].rest)
    found = Reason(closest, named[closest].rest, False)
    if normaliser_only:
        return found
    for parts, scaled in named.items():
        # A term has the normaliser of the loss, or one of its own beside Dr-GRPO's.
        of_term = {p: f for p, f in factors.items() if not parts or p in parts}
        for find in (_other_clip, partial(_more_terms, of_term)):
            more = find(scaled, tolerance)
            if more is not None:
                return Reason((*parts, *more.parts), more.rest, False)
    return found


def _best_constant(tables: Coefficient) -> float:
    pairs = list(zip(tables.ours, tables.theirs, strict=True))
    square = sum(float((x * x).sum()) for x, _ in pairs)
    product = sum(float((x * y).nansum()) for x, y in pairs)
    return product / square if square else 0.0


def _other_clip(tables: Coefficient, tolerance: float) -> Reason | None:
    """Return the ratios whose tokens only one of the two clips, if all else is equal.

    What a token's coefficient is where ours has none cannot be predicted from ours.
    """
    parts = []
    for sign, of_sign in ((1, "A > 0"), (-1, "A < 0")):
        ratios, our, their = _of_sign(tables, sign)
        size = max(float(x.abs().max()) for x in tables.theirs)
        equal = (our - their).abs() <= tolerance * size
        theirs_only, ours_only = ~equal & (our == 0), ~equal & (their == 0)
        if not (equal | theirs_only | ours_only).all():
            return None
        for chosen, verb in ((ours_only, "none"), (theirs_only, "a gradient")):
            if not chosen.any():
                continue
            low, high = float(ratios[chosen].min()), float(ratios[chosen].max())
            # A clip acts on all ratios of an interval, or it is something else.
            inside = (ratios >= low) & (ratios <= high)
            if not (chosen | (our == 0) & (their == 0))[inside].all():
                return None
            parts.append(
                f"{verb} where {of_sign} and r is from {low:.4g} to {high:.4g}, where "
                f"ours has {'a gradient' if verb == 'none' else 'none'}"
            )
    if not parts:
        return None
    only_one = [
        ((x == 0) ^ (y == 0)) & s.tables.mask & (s.tables.A != 0)
        for s, x, y in zip(tables.scenarios, tables.ours, tables.theirs, strict=True)
    ]
    # Only the tokens that neither clips, or both.
    rest = max(
        relative_difference(y.masked_fill(o, 0.0), x.masked_fill(o, 0.0))
        for x, y, o in zip(tables.ours, tables.theirs, only_one, strict=True)
    )
    return Reason(tuple(parts), rest, False)


def _of_sign(tables: Coefficient, sign: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ratio, our and their coefficient of the tokens with one sign of A."""
    ratios, our, their = [], [], []
    for s, x, y in zip(tables.scenarios, tables.ours, tables.theirs, strict=True):
        chosen = s.tables.mask & (s.tables.A * sign > 0)
        ratios.append(s.tables.ratio.detach()[chosen])
        our.append(x[chosen])
        their.append(y[chosen])
    return torch.cat(ratios), torch.cat(our), torch.cat(their)


def _log_ratio(t: TokenTables) -> Tensor:
    return (t.S - t.S_old).where(t.mask, 0.0)


def _to_reference(t: TokenTables) -> Tensor:
    assert t.S_ref is not None
    return (t.S - t.S_ref).where(t.mask, 0.0)


_TERMS: dict[str, Callable[[TokenTables], Tensor]] = {
    "log r": _log_ratio,
    "sign(log r)": lambda t: _log_ratio(t).sign(),
    "r·log r": lambda t: t.ratio.detach() * _log_ratio(t),
    "d": _to_reference,
    "1 - exp(-d)": lambda t: 1.0 - (-_to_reference(t)).exp(),
    "exp(-d) - 1 + d": lambda t: (-_to_reference(t)).exp() - 1.0 + _to_reference(t),
    "1": lambda t: t.mask.double(),
}
"""Derivatives in S of terms that losses are known to add; d = S - S_ref."""


def _more_terms(
    factors: dict[str, Factor], tables: Coefficient, tolerance: float
) -> Reason | None:
    """Return the term, times a fitted constant, that explains what is left."""
    normalisers: dict[str, Factor] = {"responses × length limit": lambda s: 1.0}
    for by, factor in (normalisers | factors).items():
        for name, term in _TERMS.items():
            found = [
                (term(s.tables) * factor(s) / slots(s), x, y)
                for s, x, y in zip(
                    tables.scenarios, tables.ours, tables.theirs, strict=True
                )
            ]
            square = sum(float((c * c).sum()) for c, _, _ in found)
            if not square:
                continue
            value = sum(float((c * (y - x)).nansum()) for c, x, y in found) / square
            rest = max(relative_difference(y, x + value * c) for c, x, y in found)
            if rest <= tolerance:
                divisor = by if by in normalisers else f"({by})"
                text = f"α also has {value:.6g}·({name}), {divisor}"
                return Reason((text,), rest, False)
    return None
