"""The tables of the README, from the rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from entrometer.runs.comparison import ComparisonTables, Outcome

Found = Mapping[str, ComparisonTables]


def tables(found: Found) -> str:
    """All of them, as Markdown."""
    parts = (_gains, _agreement, _fixed, _frontier, _below)
    return "\n\n".join("\n".join(part(found)) for part in parts)


def _tried(found: Found, objective: str) -> list[tuple[str, Outcome]]:
    return [
        (kind, o)
        for kind, own in found.items()
        for o in own.outcomes
        if o.tried and o.objective == objective
    ]


def _gains(found: Found) -> Iterator[str]:
    """Observed gain against plain, by intervention and point."""
    for kind, own in found.items():
        names = list(dict.fromkeys(o.checkpoint for o in own.outcomes))
        for objective in ("entropy", "reward"):
            yield f"| {kind}, {objective} | " + " | ".join(names) + " |"
            yield "|---" * (len(names) + 1) + "|"
            rows: dict[str, list[str]] = {}
            for _, o in _tried({kind: own}, objective):
                if o.name == "dr-grpo":
                    cell = f"{o.observed:+.4f} ± {o.observed_se:.4f}"
                elif o.changed == 0:
                    cell = "as plain"
                else:
                    sure = o.observed_gain_low > 0 or o.observed_gain_high < 0
                    mark = "**" if sure else ""
                    cell = (
                        f"{mark}{o.observed_gain:+.4f}{mark} ± {o.observed_gain_se:.4f}"
                    )
                rows.setdefault(o.settings, []).append(cell)
            for name, cells in rows.items():
                yield f"| {name} | " + " | ".join(cells) + " |"
            yield ""


def _agreement(found: Found) -> Iterator[str]:
    yield "| update | of | points | slope of predicted on observed | R² | covered |"
    yield "|---|---|---|---|---|---|"
    for objective in ("entropy", "reward"):
        for kind in (*found, "all"):
            own = [
                o
                for k, o in _tried(found, objective)
                if kind in (k, "all") and (o.changed > 0 or o.name == "dr-grpo")
            ]
            x, y = np.array([(o.predicted, o.observed) for o in own]).T
            slope = float(x @ y / (y @ y))
            R2 = 1 - float(((x - slope * y) ** 2).sum() / (x @ x))
            yield (
                f"| {kind} | {objective} | {len(own)} | {slope:.2f} | {R2:.3f} | "
                f"{_covered(own):.2f} |"
            )


def _covered(own: Sequence[Outcome]) -> float:
    """By the half that is independent of what was observed; a frontier chose there."""
    inside = [
        abs(o.elsewhere - o.observed)
        < np.hypot(o.elsewhere_high - o.elsewhere, o.observed_high - o.observed)
        for o in own
        if o.name != "frontier"
    ]
    return float(np.mean(inside))


def _fixed(found: Found) -> Iterator[str]:
    """What the fixed preconditioner, and what curvature, leaves out."""
    yield "| update | of | fixed preconditioner off | curvature | of plain's change |"
    yield "|---|---|---|---|---|"
    for kind, own in found.items():
        for objective in ("entropy", "reward"):
            rows = [o for _, o in _tried({kind: own}, objective)]
            size = np.mean([abs(o.observed) for o in rows if o.name == "dr-grpo"])
            held = [abs(o.predicted - o.reformed) for o in rows if o.changed > 0]
            bent = [abs(o.reformed - o.observed) for o in rows if o.changed > 0]
            yield (
                f"| {kind} | {objective} | {np.median(held) / size:.0%}, at most "
                f"{np.max(held) / size:.0%} | {np.median(bent) / size:.0%}, at most "
                f"{np.max(bent) / size:.0%} | {size:.4f} |"
            )


def _frontier(found: Found) -> Iterator[str]:
    yield (
        "| update | checkpoint | price | kept | entropy | reward | as fitted: entropy "
        "| reward |"
    )
    yield "|---" * 8 + "|"
    for kind, own in found.items():
        for p in own.frontier:
            yield (
                f"| {kind} | {p.checkpoint} | {p.price:g} | {p.kept:.2f} | "
                f"{p.entropy:+.4f} ± {p.entropy_se:.4f} | {p.reward:+.4f} ± "
                f"{p.reward_se:.4f} | {p.fitted_entropy:+.4f} | "
                f"{p.fitted_reward:+.4f} |"
            )


def _below(found: Found) -> Iterator[str]:
    """Reward below the frontier at the same change of entropy."""
    for kind, own in found.items():
        names = list(dict.fromkeys(o.checkpoint for o in own.outcomes))
        yield f"| below the frontier, {kind} | " + " | ".join(names) + " |"
        yield "|---" * (len(names) + 1) + "|"
        rows: dict[str, list[str]] = {}
        for _, o in _tried({kind: own}, "reward"):
            cell = (
                "beyond" if np.isnan(o.below) else f"{o.below:+.4f} ± {o.below_se:.4f}"
            )
            rows.setdefault(o.settings, []).append(cell)
        for name, cells in rows.items():
            yield f"| {name} | " + " | ".join(cells) + " |"
        yield ""
