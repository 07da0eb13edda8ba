"""The tables of the README, from the rows.

Usage: python -m studies.influence_tables, from the root of the repository, prints them
from the tables in studies/influence. It takes seconds and measures nothing.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entrometer.runs.tables.influence import InfluenceTables, Token
from studies.chance import HEADS, Difference, chance
from studies.collected import committed_tables
from studies.markdown import table
from studies.signal import after

HERE = Path(__file__).parent / "influence"


def committed() -> InfluenceTables:
    """The tables that are kept here."""
    return committed_tables(HERE, InfluenceTables)


def tables(found: InfluenceTables) -> str:
    """All of them, as Markdown."""
    parts = (
        *(_balance, concentration, _groups, _scores, _diagonals),
        *(_removals, by_chance, _words),
    )
    return "\n\n".join(part(found) for part in parts)


def _balance(found: InfluenceTables) -> str:
    return table(
        ("checkpoint", "objective", "part", "slope, per unit learning rate"),
        (
            (b.checkpoint, b.objective, b.part, f"{b.value:+.3g} ± {b.value_se:.2g}")
            for b in found.balance
        ),
    )


def concentration(found: InfluenceTables) -> str:
    """How much of Σ|I_h| few tokens carry, and with which sign."""
    return table(
        (
            *("checkpoint", "prompts with a gradient", "tokens with a gradient"),
            *("beyond 2 standard errors", "Σ|I_h| in the top 1%"),
            *("draining", "raising", "in the top 10%"),
        ),
        (_concentrated(name, own) for name, own in _by_checkpoint(found.tokens)),
    )


def _concentrated(name: str, every: list[Token]) -> list[str]:
    # A token without a weight in the loss has no influence, and is no small one.
    own = [token for token in every if token.alpha]
    I_h, se = (
        np.array([getattr(t, x) for t in own]) for x in ("entropy", "entropy_se")
    )
    ranked = I_h[np.argsort(-np.abs(I_h), kind="stable")]
    top, more = (ranked[: max(1, round(x * ranked.size))] for x in (0.01, 0.1))
    parts = (np.abs(top), -top.clip(max=0), top.clip(min=0), np.abs(more))
    return [
        *(name, str(after(name))),
        f"{len(own):,} of {len(every):,}",
        f"{np.mean(np.abs(I_h) > 2 * se):.0%} of them",
        *(f"{part.sum() / np.abs(I_h).sum():.0%}" for part in parts),
    ]


def _groups(found: InfluenceTables) -> str:
    rewards = {
        (g.checkpoint, g.by, g.name): g for g in found.groups if g.objective == "reward"
    }
    return table(
        ("checkpoint", "by", "name", "tokens", "on entropy", "on reward"),
        (
            (
                *(g.checkpoint, g.by, g.name, str(g.tokens)),
                *(f"{x.value:+.3g} ± {x.value_se:.2g}" for x in (g, r)),
            )
            for g in found.groups
            if g.objective == "entropy" and g.by in ("advantage", "kind", "position")
            for r in [rewards[g.checkpoint, g.by, g.name]]
        ),
    )


def _scores(found: InfluenceTables) -> str:
    names = dict.fromkeys(s.checkpoint for s in found.scores)
    keys = dict.fromkeys((s.level, s.target, s.score) for s in found.scores)
    rows = []
    for key in keys:
        own = [s for s in found.scores if (s.level, s.target, s.score) == key]
        cells = [f"{s.rho:+.2f} [{s.rho_low:+.2f}, {s.rho_high:+.2f}]" for s in own]
        share = np.mean([s.found for s in own])
        size = abs(np.mean([s.rho for s in own]))
        rows.append(((*key[:2], -size), [*key, *cells, f"{share:.2f}"]))
    return table(
        ("level", "target", "score", *names, "top 1% found"),
        (row for _, row in sorted(rows)),
    )


def _diagonals(found: InfluenceTables) -> str:
    return table(
        ("checkpoint", "block", "ΣX·Y", "pairs"),
        (
            (d.checkpoint, d.block, f"{d.value:+.3g}", str(d.pairs))
            for d in found.diagonals
        ),
    )


def _removals(found: InfluenceTables) -> str:
    return table(
        (
            *("checkpoint", "chosen by", "tokens", "objective"),
            *("predicted", "observed", "whole step"),
        ),
        (
            (
                *(r.checkpoint, r.by, str(r.tokens), r.objective),
                f"{r.predicted:+.2e} [{r.predicted_low:+.1e}, {r.predicted_high:+.1e}]",
                f"{r.observed:+.2e} [{r.observed_low:+.1e}, {r.observed_high:+.1e}]",
                f"{r.whole:+.2e}",
            )
            for r in found.removals
        ),
    )


def by_chance(found: InfluenceTables) -> str:
    """How many observed differences leave 0 out, and how many would by chance."""
    return table(
        ("tokens taken out, difference in", *HEADS),
        (
            (
                objective,
                *chance(
                    Difference(r.observed, r.observed_se, r.observed_high)
                    for r in found.removals
                    if r.objective == objective
                ),
            )
            for objective in ("entropy", "reward")
        ),
    )


def _words(found: InfluenceTables) -> str:
    return table(
        ("checkpoint", "token", "before it", "p", "advantage", "I_h", "I_J"),
        (
            (
                *(name, repr(t.text), repr(_before(t, own)), f"{np.exp(t.S):.2f}"),
                f"{t.advantage:+.2f}",
                f"{t.entropy:+.2g} ± {t.entropy_se:.1g}",
                f"{t.reward:+.2g} ± {t.reward_se:.1g}",
            )
            for name, own in _by_checkpoint(found.tokens)
            for t in sorted(own, key=lambda t: t.entropy)[:5]
        ),
    )


def _before(token: Token, own: list[Token]) -> str:
    return "".join(
        o.text
        for o in own
        if o.response == token.response
        and token.position - 6 <= o.position < token.position
    )


def _by_checkpoint(tokens: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    for name in dict.fromkeys(t.checkpoint for t in tokens):
        yield name, [t for t in tokens if t.checkpoint == name]


if __name__ == "__main__":
    print(tables(committed()))
