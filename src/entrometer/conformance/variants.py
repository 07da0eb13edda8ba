"""Variants of a loss of ours: by micro-batch, and with other settings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from entrometer.conformance.normalisers import DEVIATION, SETTINGS, Factor, lengths
from entrometer.conformance.scenarios import Scenario
from entrometer.interventions import Intervention
from entrometer.interventions.registry import Number
from entrometer.tokens import LossCoefficients

MICRO_BATCHES = "statistics are of each micro-batch"
_DUAL = 3.0
DUAL_CLIP = f"the surrogate has no gradient where A < 0 and r > {_DUAL:g}"


@dataclass(frozen=True)
class Variant:
    """A variant of a loss of ours."""

    named: tuple[str, ...]  #: How it differs from the loss.
    of: Callable[[Scenario], LossCoefficients]  #: Its coefficients.
    #: Whether it may be the reason together with another clip or term.
    with_more: bool = True


def variants(own: Intervention, scenarios: Sequence[Scenario]) -> Iterator[Variant]:
    """Yield the loss itself, by micro-batch, dual-clipped and with other settings."""
    split = any(s.micro_batch for s in scenarios) and not own.remedy.by_token
    ways = [((), False), ((MICRO_BATCHES,), True)] if split else [((), False)]
    for named, by_micro_batch in ways:
        yield Variant(named, partial(_coefficients, own, by_micro_batch, {}))
    yield Variant((DUAL_CLIP,), partial(_dual_clipped, own))
    for name, value in own.settings:
        for text, value_of in _other_values(own, name, value).items():
            for named, by_micro_batch in ways:
                coefficients = partial(
                    _coefficients, own, by_micro_batch, {name: value_of}
                )
                # What replaces a term that is taken away may be another term.
                yield Variant((text, *named), coefficients, text.endswith("= 0"))


def _other_values(own: Intervention, name: str, value: Number) -> dict[str, Factor]:
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


def _scaled(value: Number, factor: Factor, s: Scenario) -> Tensor | float:
    return value * factor(s)


def _constant_value(value: Number, s: Scenario) -> float:
    del s
    return float(value)


def _coefficients(
    own: Intervention,
    by_micro_batch: bool,
    changes: dict[str, Factor],
    s: Scenario,
) -> LossCoefficients:
    settings = dict(own.settings)
    settings |= {name: type(settings[name])(f(s)) for name, f in changes.items()}
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


def relative_to(own: Intervention, factors: dict[str, Factor]) -> dict[str, Factor]:
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
