r"""Name why the coefficients of another implementation differ from ours.

A reason is a prediction of the other coefficients from ours: times the ratio of two
normalisers, with the statistics of each micro-batch, with another value of a setting,
with other tokens clipped, or with one more term. It is given only if the prediction is
right, to rounding, on every token of every batch.
"""

# Axes: B responses, T tokens of a response.

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from entrometer.conformance.difference import apart, relative_difference
from entrometer.conformance.normalisers import (
    DEVIATION,
    ENTROPY,
    ENTROPY_BY_MICRO_BATCH,
    POLICY,
    POLICY_BY_MICRO_BATCH,
    SETTINGS,
    Factor,
    lengths,
    slots,
)
from entrometer.conformance.scenarios import Scenario
from entrometer.interventions import Intervention, TokenTables
from entrometer.tokens import LossCoefficients

MICRO_BATCHES = "statistics are of each micro-batch"
NO_ENTROPY_GRADIENT = "no gradient in the entropy"
_DUAL = 3.0
DUAL_CLIP = f"the surrogate has no gradient where A < 0 and r > {_DUAL:g}"


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


AGREES, NORMALISER, DIFFERS = "agrees", "other normaliser", "differs"


@dataclass(frozen=True)
class Judgement:
    """Whether two implementations agree, and if not why."""

    verdict: str  #: `agrees`, `other normaliser` or `differs`.
    reason: str
    rest: float  #: Largest relative difference that the reason leaves.


def judge(
    own: Intervention,
    scenarios: Sequence[Scenario],
    ours: Sequence[LossCoefficients],
    theirs: Sequence[LossCoefficients],
    *,
    tolerance: float,
) -> Judgement:
    """Return whether the coefficients agree on all scenarios, and if not why."""
    apart_by = [apart(x, y).largest for x, y in zip(ours, theirs, strict=True)]
    largest = max(apart_by)
    if largest <= tolerance:
        return Judgement(AGREES, "", largest)
    why = find_reason(own, scenarios, theirs, tolerance=tolerance)
    if why is None:
        return Judgement(DIFFERS, "not named", largest)
    if why.rest > tolerance:
        text = f"{why.text}; what is left, {why.rest:.1g}, is not named"
        return Judgement(DIFFERS, text, why.rest)
    return Judgement(NORMALISER if why.normaliser_only else DIFFERS, why.text, why.rest)


@dataclass(frozen=True)
class _Tables:
    """One coefficient on all scenarios, by both implementations."""

    scenarios: Sequence[Scenario]
    ours: Sequence[Tensor]
    theirs: Sequence[Tensor]

    @property
    def rest(self) -> float:
        """Largest relative difference."""
        return max(map(relative_difference, self.theirs, self.ours))

    def times(self, factor: Factor) -> "_Tables":
        """Return these with ours multiplied by a factor."""
        pairs = zip(self.ours, self.scenarios, strict=True)
        return replace(self, ours=[x * factor(s) for x, s in pairs])


def find_reason(
    intervention: Intervention,
    scenarios: Sequence[Scenario],
    theirs: Sequence[LossCoefficients],
    *,
    tolerance: float,
) -> Reason | None:
    """Return the simplest reason that predicts all coefficients.

    If none does, it is the one that comes closest, if it explains all but a thousandth;
    else None.
    """
    closest: Reason | None = None
    tried = [
        (named, [variant(s) for s in scenarios], last)
        for named, variant, last in _variants(intervention, scenarios)
    ]
    # A loss of ours with another setting is a simpler reason than another clip or term.
    for normaliser_only in (True, False):
        for named, ours, last in tried:
            if last and not normaliser_only:
                continue
            alpha, gamma = (
                _Tables(
                    scenarios,
                    [getattr(c, which) for c in ours],
                    [getattr(c, which) for c in theirs],
                )
                for which in ("alpha", "gamma")
            )
            of_alpha = _explain(
                alpha,
                _relative(intervention, POLICY),
                _relative(intervention, POLICY_BY_MICRO_BATCH),
                tolerance,
                normaliser_only=normaliser_only,
            )
            of_gamma = _explain_entropy(gamma, tolerance)
            rest = max(of_alpha.rest, of_gamma.rest)
            if closest is not None and rest >= closest.rest:
                continue
            closest = Reason(
                (*named, *of_alpha.parts, *of_gamma.parts),
                rest,
                not named and of_alpha.normaliser_only and of_gamma.normaliser_only,
            )
            if rest <= tolerance:
                return closest
    return closest if closest is not None and closest.rest <= 1e-3 else None


Variant = Callable[[Scenario], LossCoefficients]


def _variants(
    own: Intervention, scenarios: Sequence[Scenario]
) -> Iterator[tuple[tuple[str, ...], Variant, bool]]:
    """Yield names and coefficients of ours, by micro-batch and with other settings.

    The third is whether only a normaliser may differ from it besides.
    """
    split = any(s.micro_batch for s in scenarios) and not own.remedy.by_token
    ways = [((), False), ((MICRO_BATCHES,), True)] if split else [((), False)]
    for named, by_micro_batch in ways:
        yield named, partial(_coefficients, own, by_micro_batch, {}), False
    yield (DUAL_CLIP,), partial(_dual_clipped, own), False
    for name, value in own.settings:
        for text, value_of in _other_values(own, name, value).items():
            for named, by_micro_batch in ways:
                variant = partial(_coefficients, own, by_micro_batch, {name: value_of})
                # What replaces a term that is taken away may be another term.
                yield (text, *named), variant, not text.endswith("= 0")


def _other_values(own: Intervention, name: str, value: float) -> dict[str, Factor]:
    """Return other values of a setting, by how they read in a reason."""
    if isinstance(value, int):
        # A choice among a few, such as the form of a penalty.
        choices = {f"as ours with {name} = {i}": i for i in (1, 2, 3) if i != value}
        return {text: partial(_constant_value, i) for text, i in choices.items()}
    share = name in own.remedy.shares
    found: dict[str, Factor] = {}
    if value and name not in own.remedy.positive:
        found[f"as ours with {name} = 0"] = partial(_constant_value, 0.0)
    if not share:
        # Larger than any ratio or covariance; its square is still finite.
        found[f"as ours with {name} out of reach"] = partial(_constant_value, 1e100)
    for by, factor in SETTINGS.items():
        if value and not (share and by not in ("2", "1/2")):
            found[f"as ours with {name} times {by}"] = partial(_scaled, value, factor)
    return found


def _scaled(value: float, factor: Factor, s: Scenario) -> Tensor | float:
    return value * factor(s)


def _constant_value(value: float, s: Scenario) -> float:
    del s
    return value


def _coefficients(
    own: Intervention,
    by_micro_batch: bool,
    changes: dict[str, Factor],
    s: Scenario,
) -> LossCoefficients:
    settings = dict(own.settings) | {n: float(f(s)) for n, f in changes.items()}
    changed = replace(
        own,
        settings=tuple(settings.items()),
        micro_batch=s.micro_batch if by_micro_batch else own.micro_batch,
    )
    return changed.coefficients(s.tables)


def _dual_clipped(own: Intervention, s: Scenario) -> LossCoefficients:
    """Return ours without the surrogate of the tokens that dual-clip PPO stops."""
    tables = s.tables
    stopped = tables.mask & (tables.A < 0) & (tables.ratio.detach() > _DUAL)
    # The mean and deviation of a response's advantages are not those of one token.
    if own.remedy.whole or (not own.remedy.by_token and own.remedy.on_policy is False):
        return own.coefficients(tables)
    return own.coefficients(replace(tables, A=tables.A.masked_fill(stopped, 0.0)))


def _relative(own: Intervention, factors: dict[str, Factor]) -> dict[str, Factor]:
    """Return normalisers relative to ours, which for GRPO is its mean per response."""
    if not own.remedy.whole:
        return factors

    def product(factor: Factor, other: Factor, s: Scenario) -> Tensor | float:
        return factor(s) * other(s)

    def mean_per_response(s: Scenario) -> Tensor:
        return lengths(s) / s.tables.length_limit

    relative: dict[str, Factor] = {
        name: partial(product, factor, mean_per_response)
        for name, factor in factors.items()
    }
    both: dict[str, Factor] = {
        f"{name}; {scale}": partial(product, factor, of_scale)
        for name, factor in relative.items()
        for scale, of_scale in DEVIATION.items()
    }
    return relative | DEVIATION | both


def _explain(
    tables: _Tables,
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
    named: dict[tuple[str, ...], _Tables] = {(): tables}
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
    for find in (_other_clip, partial(_more_terms, factors)):
        for parts, scaled in named.items():
            more = find(scaled, tolerance)
            if more is not None:
                return Reason((*parts, *more.parts), more.rest, False)
    return found


def _explain_entropy(gamma: _Tables, tolerance: float) -> Reason:
    has_ours = any(x.any() for x in gamma.ours)
    if has_ours and not any(x.any() for x in gamma.theirs):
        return Reason((NO_ENTROPY_GRADIENT,), 0.0, False)
    return _explain(
        gamma, ENTROPY, ENTROPY_BY_MICRO_BATCH, tolerance, normaliser_only=True
    )


def _best_constant(tables: _Tables) -> float:
    pairs = list(zip(tables.ours, tables.theirs, strict=True))
    square = sum(float((x * x).sum()) for x, _ in pairs)
    product = sum(float((x * y).nansum()) for x, y in pairs)
    return product / square if square else 0.0


def _other_clip(tables: _Tables, tolerance: float) -> Reason | None:
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


def _of_sign(tables: _Tables, sign: int) -> tuple[Tensor, Tensor, Tensor]:
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
    factors: dict[str, Factor], tables: _Tables, tolerance: float
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
