"""Interventions to compare, with the strengths that are swept."""

from dataclasses import dataclass, replace

from entrometer.interventions import (
    PLAIN,
    Intervention,
    intervention,
    intervention_names,
)


@dataclass(frozen=True)
class Variant:
    """An intervention at a strength."""

    intervention: Intervention
    tried: bool
    """Whether its truth is measured: at the default, or as it was asked for."""

    @property
    def strength(self) -> float | None:
        """Its value; None for one without."""
        name = self.intervention.remedy.strength
        return None if name is None else dict(self.intervention.settings)[name]


def variants(texts: tuple[str, ...]) -> tuple[Variant, ...]:
    """Plain first, then each intervention; without settings, at all its strengths."""
    plain = Variant(intervention(PLAIN), tried=True)
    found = [plain]
    for text in texts or intervention_names():
        chosen = intervention(text)
        swept = chosen.remedy.strengths if ":" not in text else ()
        name = chosen.remedy.strength
        if chosen == plain.intervention:
            continue
        found += [
            Variant(option, tried=option == chosen)
            for value in swept
            for option in [_with(chosen, str(name), value)]
        ] or [Variant(chosen, tried=True)]
    return tuple(dict.fromkeys(found))


def _with(chosen: Intervention, name: str, value: float) -> Intervention:
    settings = dict(chosen.settings) | {name: value}
    return replace(chosen, settings=tuple(settings.items()))
