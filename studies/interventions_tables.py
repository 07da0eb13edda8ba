"""The tables of the README, from the rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from scipy.stats import spearmanr

from entrometer.report.agreement import agreement
from entrometer.runs.comparison import ComparisonTables, Outcome
from studies.markdown import table

Found = Mapping[str, ComparisonTables]


def tables(found: Found) -> str:
    """All of them, as Markdown."""
    parts = (_gains, _agreement, _ranks, _fixed, _frontier, _below)
    return "\n\n".join(part(found) for part in parts)


def _tried(own: ComparisonTables, objective: str) -> list[Outcome]:
    return [o for o in own.outcomes if o.tried and o.objective == objective]


def _gains(found: Found) -> str:
    """Observed gain against plain, by intervention and point."""
    return _group(
        _by_point(f"{kind}, {objective}", own, objective, _gain)
        for kind, own in found.items()
        for objective in ("entropy", "reward")
    )


def _gain(o: Outcome) -> str:
    if o.name == "dr-grpo":
        return f"{o.observed:+.4f} ± {o.observed_se:.4f}"
    if o.changed == 0:
        return "as plain"
    sure = o.observed_gain_low > 0 or o.observed_gain_high < 0
    mark = "**" if sure else ""
    return f"{mark}{o.observed_gain:+.4f}{mark} ± {o.observed_gain_se:.4f}"


def _agreement(found: Found) -> str:
    return table(
        ("update", "of", "points", "slope of predicted on observed", "R²", "covered"),
        _agreements(found),
    )


def _agreements(found: Found) -> Iterator[list[str]]:
    for objective in ("entropy", "reward"):
        trials = {
            kind: [
                o
                for o in _tried(own, objective)
                if o.changed > 0 or o.name == "dr-grpo"
            ]
            for kind, own in found.items()
        }
        every = [o for own in trials.values() for o in own]
        trials |= {"all": every, "but GRPO": [o for o in every if o.name != "grpo"]}
        for kind, own in trials.items():
            a = agreement(own)
            yield [
                *(kind, objective, str(a.steps)),
                *(f"{a.slope:.2f}", f"{a.r2:.3f}", f"{a.share:.2f}"),
            ]


def _ranks(found: Found) -> str:
    """Spearman's correlation of predicted with observed gains over plain."""

    def cell(own: ComparisonTables, objective: str, name: str) -> str:
        rows = [
            o
            for o in _tried(own, objective)
            if o.checkpoint == name and o.changed > 0 and o.name != "dr-grpo"
        ]
        rank = spearmanr([o.gain for o in rows], [o.observed_gain for o in rows])
        return f"{rank.statistic:.2f} of {len(rows)}"

    names = dict.fromkeys(o.checkpoint for own in found.values() for o in own.outcomes)
    return table(
        ("rank of predicted and observed gain, update", "of", *names),
        (
            (kind, objective, *(cell(own, objective, name) for name in names))
            for kind, own in found.items()
            for objective in ("entropy", "reward")
        ),
    )


def _fixed(found: Found) -> str:
    """What the fixed preconditioner, and what curvature, leaves out."""
    return table(
        ("update", "of", "fixed preconditioner off", "curvature", "of plain's change"),
        (
            (kind, objective, *_left_out(_tried(own, objective)))
            for kind, own in found.items()
            for objective in ("entropy", "reward")
        ),
    )


def _left_out(rows: list[Outcome]) -> list[str]:
    size = np.mean([abs(o.observed) for o in rows if o.name == "dr-grpo"])
    held = [abs(o.predicted - o.reformed) for o in rows if o.changed > 0]
    bent = [abs(o.reformed - o.observed) for o in rows if o.changed > 0]
    shares = [
        f"{np.median(x) / size:.0%}, at most {np.max(x) / size:.0%}"
        for x in (held, bent)
    ]
    return [*shares, f"{size:.4f}"]


def _frontier(found: Found) -> str:
    return table(
        (
            *("update", "checkpoint", "price", "kept", "entropy", "reward"),
            *("as fitted: entropy", "reward"),
        ),
        (
            (
                *(kind, p.checkpoint, f"{p.price:g}", f"{p.kept:.2f}"),
                f"{p.entropy:+.4f} ± {p.entropy_se:.4f}",
                f"{p.reward:+.4f} ± {p.reward_se:.4f}",
                *(f"{x:+.4f}" for x in (p.fitted_entropy, p.fitted_reward)),
            )
            for kind, own in found.items()
            for p in own.frontier
        ),
    )


def _below(found: Found) -> str:
    """Reward below the frontier at the same change of entropy."""

    def cell(o: Outcome) -> str:
        return "beyond" if np.isnan(o.below) else f"{o.below:+.4f} ± {o.below_se:.4f}"

    return _group(
        _by_point(f"below the frontier, {kind}", own, "reward", cell)
        for kind, own in found.items()
    )


def _group(some: Iterable[str]) -> str:
    """Tables of one kind."""
    return "\n\n".join(some)


def _by_point(
    head: str, own: ComparisonTables, objective: str, cell: Callable[[Outcome], str]
) -> str:
    """A row an intervention that was tried, a column a checkpoint."""
    names = dict.fromkeys(o.checkpoint for o in own.outcomes)
    rows: dict[str, list[str]] = {}
    for o in _tried(own, objective):
        rows.setdefault(o.settings, [o.settings]).append(cell(o))
    return table((head, *names), rows.values())
