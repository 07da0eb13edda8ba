"""The tables of the README, from the rows.

Usage: python -m studies.interventions_tables, from the root of the repository, prints
them from the tables in studies/interventions. It takes seconds and measures nothing.

Every ± is given one update batch: it is the error over evaluation prompts, and says
nothing of what another batch would have done. Heads of columns say how many prompts of
that batch carry a gradient.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from entrometer.report.compare.agreement import agreement, gain
from entrometer.runs.tables.compare import CompareTables, Outcome
from studies.chance import HEADS, Difference, chance
from studies.collected import committed_tables
from studies.markdown import table
from studies.signal import after

HERE = Path(__file__).parent / "interventions"
OBJECTIVES = ("entropy", "reward")

Found = Mapping[str, CompareTables]
Pair = tuple[Outcome, Outcome]
"""A remedy's row, and plain's at the same point."""


def committed() -> dict[str, CompareTables]:
    """The comparisons whose tables are kept here."""
    return {
        kind: committed_tables(HERE / kind, CompareTables)
        for kind in ("recorded", "stale")
    }


def tables(found: Found) -> str:
    """All of them, as Markdown."""
    parts = (
        *(_gains, by_chance, as_plain, agreements, ranks),
        *(_fixed, _frontier, _below),
    )
    return "\n\n".join(part(found) for part in parts)


def _tried(own: CompareTables, objective: str) -> list[Outcome]:
    return [o for o in own.outcomes if o.tried and o.objective == objective]


def _pairs(own: CompareTables, objective: str) -> list[Pair]:
    """Losses that differ from plain, each with plain at the same checkpoint."""
    tried = _tried(own, objective)
    plain = {o.checkpoint: o for o in tried if o.name == "dr-grpo"}
    return [(o, plain[o.checkpoint]) for o in tried if o.changed > 0]


def _gains(found: Found) -> str:
    """Observed gain against plain, by intervention and point."""
    return _group(
        _by_point(f"{kind}, {objective}", own, objective, _gain)
        for kind, own in found.items()
        for objective in OBJECTIVES
    )


def _gain(o: Outcome) -> str:
    if o.name == "dr-grpo":
        return f"{o.observed:+.4f} ± {o.observed_se:.4f}"
    if o.changed == 0:
        return "as plain"
    sure = o.observed_gain_low > 0 or o.observed_gain_high < 0
    mark = "**" if sure else ""
    return f"{mark}{o.observed_gain:+.4f}{mark} ± {o.observed_gain_se:.4f}"


def by_chance(found: Found) -> str:
    """How many observed gains leave 0 out, and how many would by chance."""
    return table(
        ("gains in", *HEADS),
        (
            (
                objective,
                *chance(
                    Difference(
                        o.observed_gain, o.observed_gain_se, o.observed_gain_high
                    )
                    for own in found.values()
                    for o, _ in _pairs(own, objective)
                ),
            )
            for objective in OBJECTIVES
        ),
    )


def as_plain(found: Found) -> str:
    """Losses with plain's gradient on every token, at all strengths and points."""
    names = {
        kind: [
            name
            for name in dict.fromkeys(o.name for o in own.outcomes)
            if name != "dr-grpo"
            and all(o.changed == 0 for o in own.outcomes if o.name == name)
        ]
        for kind, own in found.items()
    }
    return table(
        ("update", "as plain at every checkpoint and strength"),
        ((kind, ", ".join(own)) for kind, own in names.items()),
    )


def agreements(found: Found) -> str:
    """R² of gains predicted by one half of the prompts, observed on the other."""
    return table(("gains of", "steps", "R²", "within 95% noise"), _agreements(found))


def _agreements(found: Found) -> Iterator[list[str]]:
    for objective in OBJECTIVES:
        # The half that predicts chose the frontier's tokens.
        pairs = {
            kind: [p for p in _pairs(own, objective) if not p[0].chosen]
            for kind, own in found.items()
        }
        every = [pair for own in pairs.values() for pair in own]
        pairs["all"] = every
        pairs["all, without GRPO"] = [p for p in every if p[0].name != "grpo"]
        for kind, own in pairs.items():
            a = agreement([gain(*pair) for pair in own])
            yield [
                *(f"{objective}, {kind}", str(a.steps), f"{a.r2:.2f}"),
                f"{a.within} of {a.judged}",
            ]


def ranks(found: Found) -> str:
    """Spearman's ρ of gains predicted by one half and observed on the other."""
    names = dict.fromkeys(o.checkpoint for own in found.values() for o in own.outcomes)
    return table(
        ("ρ of gains", *names),
        (
            (
                f"{objective}, {kind}{', without frontier' * (not chosen)}",
                *(
                    _rank([p for p in pairs if p[0].checkpoint == name])
                    for name in names
                ),
            )
            for chosen in (True, False)
            for objective in OBJECTIVES
            for kind, own in found.items()
            for pairs in [
                [p for p in _pairs(own, objective) if chosen or not p[0].chosen]
            ]
        ),
    )


def _rank(pairs: Sequence[Pair]) -> str:
    both = [gain(*pair) for pair in pairs]
    rank = stats.spearmanr(
        [g.predicted.value for g in both], [g.observed.value for g in both]
    )
    return f"{rank.statistic:.2f} of {len(both)}"


def _fixed(found: Found) -> str:
    """What the fixed preconditioner, and what curvature, leaves out."""
    return table(
        ("update", "of", "fixed preconditioner off", "curvature", "of plain's change"),
        (
            (kind, objective, *_left_out(_tried(own, objective)))
            for kind, own in found.items()
            for objective in OBJECTIVES
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
    head: str, own: CompareTables, objective: str, cell: Callable[[Outcome], str]
) -> str:
    """A row per intervention that was tried, a column per checkpoint."""
    names = dict.fromkeys(
        # A batch that was drawn afresh is not kept, so it cannot be counted.
        f"{o.checkpoint}, {after(o.checkpoint, o.minibatch)}"
        if o.update == "recorded"
        else o.checkpoint
        for o in own.outcomes
    )
    rows: dict[str, list[str]] = {}
    for o in _tried(own, objective):
        rows.setdefault(o.settings, [o.settings]).append(cell(o))
    return table((head, *names), rows.values())


if __name__ == "__main__":
    print(tables(committed()))
