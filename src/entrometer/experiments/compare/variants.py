"""Interventions of a comparison: those whose tables are known, at all strengths."""

from dataclasses import dataclass, replace

from entrometer.errors import InvalidValue
from entrometer.interventions import (
    PLAIN,
    Intervention,
    Remedy,
    intervention,
    intervention_names,
)

MEASURED = frozenset({"concentration", "influence"})
"""Optional tables of interventions that a comparison measures, whatever the batch."""

_HOW = {
    "S_engine": "give --updates sampled-1 with --sampler bfloat16 or the address of a "
    "vLLM server, or train with an engine whose log-probs are recorded",
    "S_ref": "train with a reference model (beta above 0 in TRL), and record it",
}
"""How a batch comes to the tables that no pass measures."""


@dataclass(frozen=True)
class Variant:
    """An intervention at a strength."""

    intervention: Intervention
    tried: bool
    """Whether its step is taken: at the default strength, or as it was asked for."""

    @property
    def strength(self) -> float | None:
        """Value of the setting that is swept; None if the intervention has none."""
        name = self.intervention.remedy.strength
        return None if name is None else dict(self.intervention.settings)[name]


def variants(
    texts: tuple[str, ...], log_probs: frozenset[str] = frozenset()
) -> tuple[Variant, ...]:
    """Return plain, then each intervention; without settings, at all its strengths.

    `log_probs` are the optional tables that the batch itself has.
    """
    plain = intervention(PLAIN)
    # Whether each is tried; one that is named twice is compared once.
    options = {plain: True}
    for text in texts or measurable_names(log_probs):
        chosen = intervention(text)
        remedy = chosen.remedy
        _require_measured(text, remedy, log_probs)
        # With settings, the user has chosen the strength.
        if ":" in text or not remedy.strengths:
            options[chosen] = True
            continue
        for value in remedy.strengths:
            settings = dict(chosen.settings) | {str(remedy.strength): value}
            option = replace(chosen, settings=tuple(settings.items()))
            options[option] = option == chosen or options.get(option, False)
    return tuple(Variant(option, tried) for option, tried in options.items())


def measurable_names(log_probs: frozenset[str] = frozenset()) -> list[str]:
    """Return the interventions of which one step says something.

    Their tables are measured, or are the batch's own.
    """
    known = MEASURED | log_probs
    remedies = {name: intervention(name).remedy for name in intervention_names()}
    return [n for n, r in remedies.items() if not (r.over_steps or r.lacks(known))]


def _require_measured(text: str, remedy: Remedy, log_probs: frozenset[str]) -> None:
    missing = remedy.lacks(MEASURED | log_probs)
    if missing:
        how = _HOW.get(missing[0], "call its loss on tables of your own")
        raise InvalidValue(
            f"expected an update batch with the table {missing[0]!r}, which {text!r} "
            f"reads, got one without it; {how}, or take another intervention"
        )
