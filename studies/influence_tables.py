"""The tables of the README, from the rows."""

from collections.abc import Iterator

import numpy as np

from entrometer.runs.influence import InfluenceTables, Token


def tables(found: InfluenceTables) -> str:
    """All of them, as Markdown."""
    parts = (_balance, _concentration, _groups, _scores, _diagonals, _removals, _words)
    return "\n\n".join("\n".join(part(found)) for part in parts)


def _balance(found: InfluenceTables) -> Iterator[str]:
    yield "| checkpoint | objective | part | slope, per unit learning rate |"
    yield "|---|---|---|---|"
    for b in found.balance:
        yield (
            f"| {b.checkpoint} | {b.objective} | {b.part} | {b.value:+.3g} ± "
            f"{b.value_se:.2g} |"
        )


def _concentration(found: InfluenceTables) -> Iterator[str]:
    yield (
        "| checkpoint | tokens | of them 2 standard errors from 0 | share of "
        "Σ\\|I_h\\| in the top 1% | 10% | correlation of I_h and I_J |"
    )
    yield "|---|---|---|---|---|---|"
    for name, own in _by_checkpoint(found.tokens):
        I_h, se, I_J = (
            np.array([getattr(t, x) for t in own])
            for x in ("entropy", "entropy_se", "reward")
        )
        sizes = np.sort(np.abs(I_h))[::-1]
        top = [sizes[: max(1, round(x * sizes.size))].sum() for x in (0.01, 0.1)]
        yield (
            f"| {name} | {len(own)} | {np.mean(np.abs(I_h) > 2 * se):.2f} | "
            f"{top[0] / sizes.sum():.2f} | {top[1] / sizes.sum():.2f} | "
            f"{np.corrcoef(I_h, I_J)[0, 1]:+.2f} |"
        )


def _groups(found: InfluenceTables) -> Iterator[str]:
    yield "| checkpoint | by | name | tokens | on entropy | on reward |"
    yield "|---|---|---|---|---|---|"
    rewards = {
        (g.checkpoint, g.by, g.name): g for g in found.groups if g.objective == "reward"
    }
    for g in found.groups:
        if g.objective == "entropy" and g.by in ("advantage", "kind", "position"):
            r = rewards[g.checkpoint, g.by, g.name]
            yield (
                f"| {g.checkpoint} | {g.by} | {g.name} | {g.tokens} | {g.value:+.3g} ± "
                f"{g.value_se:.2g} | {r.value:+.3g} ± {r.value_se:.2g} |"
            )


def _scores(found: InfluenceTables) -> Iterator[str]:
    names = list(dict.fromkeys(s.checkpoint for s in found.scores))
    yield "| level | target | score | " + " | ".join(names) + " | top 1% found |"
    yield "|---" * (len(names) + 4) + "|"
    keys = dict.fromkeys((s.level, s.target, s.score) for s in found.scores)
    rows = []
    for key in keys:
        own = [s for s in found.scores if (s.level, s.target, s.score) == key]
        cells = [f"{s.rho:+.2f} [{s.rho_low:+.2f}, {s.rho_high:+.2f}]" for s in own]
        share = np.mean([s.found for s in own])
        size = abs(np.mean([s.rho for s in own]))
        rows.append(
            ((*key[:2], -size), f"| {' | '.join([*key, *cells])} | {share:.2f} |")
        )
    yield from (row for _, row in sorted(rows))


def _diagonals(found: InfluenceTables) -> Iterator[str]:
    yield "| checkpoint | block | ΣX·Y | pairs |"
    yield "|---|---|---|---|"
    for d in found.diagonals:
        yield f"| {d.checkpoint} | {d.block} | {d.value:+.3g} | {d.pairs} |"


def _removals(found: InfluenceTables) -> Iterator[str]:
    yield (
        "| checkpoint | chosen by | tokens | objective | predicted | observed | "
        "whole step |"
    )
    yield "|---|---|---|---|---|---|---|"
    for r in found.removals:
        yield (
            f"| {r.checkpoint} | {r.by} | {r.tokens} | {r.objective} | "
            f"{r.predicted:+.2e} [{r.predicted_low:+.1e}, {r.predicted_high:+.1e}] | "
            f"{r.observed:+.2e} [{r.observed_low:+.1e}, {r.observed_high:+.1e}] | "
            f"{r.whole:+.2e} |"
        )


def _words(found: InfluenceTables) -> Iterator[str]:
    yield "| checkpoint | token | before it | p | advantage | I_h | I_J |"
    yield "|---|---|---|---|---|---|---|"
    for name, own in _by_checkpoint(found.tokens):
        for t in sorted(own, key=lambda t: t.entropy)[:5]:
            before = "".join(
                o.text
                for o in own
                if o.response == t.response
                and t.position - 6 <= o.position < t.position
            )
            yield (
                f"| {name} | {t.text!r} | {before!r} | {np.exp(t.S):.2f} | "
                f"{t.advantage:+.2f} | {t.entropy:+.2g} ± {t.entropy_se:.1g} | "
                f"{t.reward:+.2g} ± {t.reward_se:.1g} |"
            )


def _by_checkpoint(tokens: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    for name in dict.fromkeys(t.checkpoint for t in tokens):
        yield name, [t for t in tokens if t.checkpoint == name]
