"""The tables of the README, from the rows.

Usage: python -m studies.next_batches_tables, from the root of the repository, prints
them from the tables in studies/next-batches. It takes seconds and measures nothing.

Intervals are 95%, over update batches and evaluation prompts, unless a head says
otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.influence import InfluenceTables, Token
from entrometer.runs.tables.next_batches import (
    KEPT_UP,
    ONE_STEP,
    BatchChange,
    ExpectedChange,
)
from studies.collected import committed_tables
from studies.markdown import table

HERE = Path(__file__).parent / "next-batches"
PLAIN = "dr-grpo"
OBJECTIVES = ("entropy", "reward")
HORIZONS = (ONE_STEP, 8, KEPT_UP, 128)

Found = Mapping[str, CompareTables]
"""Tables by checkpoint, in the order of training."""


def committed() -> dict[str, CompareTables]:
    """The comparisons whose tables are kept here, by checkpoint."""
    paths = sorted(HERE.glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))
    return {path.name: committed_tables(path, CompareTables) for path in paths}


def committed_tokens() -> dict[str, list[Token]]:
    """Tokens of all batches at a checkpoint."""
    paths = sorted(HERE.glob("tokens-*"), key=lambda p: int(p.name.split("-")[1]))
    return {
        f"checkpoint-{path.name.split('-')[1]}": committed_tables(
            path, InfluenceTables
        ).tokens
        for path in paths
    }


def few_tokens(found: Mapping[str, list[Token]]) -> str:
    r"""How much of $\sum|I_h|$ few tokens carry, on average over batches.

    Over tokens with a gradient, batches with none left out. Student's interval over
    batches.
    """
    names = ("in the top 1%", "of it draining", "raising", "in the top 10%")
    return table(
        ("checkpoint", "batches", "tokens with a gradient", *names),
        (
            (
                *(name, str(len(parts)), f"{sum(own.size for own in by_batch):,}"),
                *(_mean(column) for column in zip(*parts, strict=True)),
            )
            for name, every in found.items()
            for by_batch in [_influences(every)]
            for parts in [[_shares(own) for own in by_batch]]
        ),
    )


def _influences(every: list[Token]) -> list[np.ndarray]:
    """Influence on entropy of the tokens with a gradient, batch by batch."""
    batches: dict[str, list[float]] = {}
    for token in every:
        # A token without a weight in the loss has no influence, and is no small one.
        if token.alpha:
            batches.setdefault(token.update, []).append(token.entropy)
    return [np.array(own) for own in batches.values()]


def _shares(I_h: np.ndarray) -> tuple[float, float, float, float]:
    ranked = I_h[np.argsort(-np.abs(I_h), kind="stable")]
    top, more = (ranked[: max(1, round(x * ranked.size))] for x in (0.01, 0.1))
    parts = (np.abs(top), -top.clip(max=0), top.clip(min=0), np.abs(more))
    one, draining, raising, ten = (p.sum() / np.abs(I_h).sum() for p in parts)
    return one, draining, raising, ten


def _mean(x: Sequence[float]) -> str:
    half = stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) / len(x) ** 0.5
    mean = np.mean(x)
    return f"{mean:.0%} [{max(0.0, mean - half):.0%}, {mean + half:.0%}]"


def tables(found: Found) -> str:
    """All of them, as Markdown."""
    parts: tuple[Callable[[Found], str], ...] = (
        *(drains, one_batch, gains, passing, variances, agreements),
        *(rewards, exchange),
    )
    by_token = few_tokens(committed_tokens())
    return "\n\n".join([*(part(found) for part in parts), by_token])


def drains(found: Found) -> str:
    """What plain's step does on average, its parts, and what the next one will do."""
    return table(
        (
            *("checkpoint", "groups with signal", "expected change of one step"),
            *("of which momentum", "the next batch's step", "variance by batches"),
            "per step, kept up for 32",
        ),
        (
            (
                name,
                _signal(own.batches),
                _estimate(row),
                _ends(row.momentum, row.momentum_low, row.momentum_high),
                f"[{row.next_low:+.4f}, {row.next_high:+.4f}]",
                f"{row.batch_share:.0%}",
                _estimate(_row(own, PLAIN, "entropy", KEPT_UP)),
            )
            for name, own in found.items()
            for row in [_row(own, PLAIN, "entropy", ONE_STEP)]
        ),
    )


def one_batch(found: Found) -> str:
    """How well one batch's step ranks the losses in entropy, and signs their gains.

    Each batch against the mean of the other seven, over losses whose gain differs from
    0 on some batch. Both sides have the same evaluation prompts. Not for reward, where
    the noise of those prompts, which the two sides share, is not small.
    """
    gains = [_gains_by_batch(own, "entropy") for own in found.values()]
    return table(
        ("gain in entropy, one batch against the others", *found),
        (
            ("signs that are right", *(f"{_right(x):.0%}" for x in gains)),
            ("rank ρ, mean and range over batches", *map(_ranked, gains)),
        ),
    )


def _others(x: np.ndarray) -> np.ndarray:
    """Mean gain of each loss by all batches but one, for each batch."""
    return np.asarray((x.sum(axis=1, keepdims=True) - x) / (x.shape[1] - 1))


def _right(x: np.ndarray) -> float:
    """Share of gains with the sign of the mean over the other batches."""
    return float(np.mean((x * _others(x) > 0)[x != 0]))


def _ranked(x: np.ndarray) -> str:
    """Spearman's correlation of each batch's gains with the others' mean."""
    rho = [
        float(stats.spearmanr(one, other).statistic)
        for one, other in zip(x.T, _others(x).T, strict=True)
        # A batch without signal gives the same gain to every loss but the bonuses.
        if np.ptp(one) > 0
    ]
    return f"{np.mean(rho):.2f}, {min(rho):.2f} to {max(rho):.2f}"


def gains(found: Found) -> str:
    """Gain in entropy over plain: of one step, and per step if it is kept up."""
    return "\n\n".join(
        _by_loss(
            f"gain in entropy, {_steps(horizon)}", found, "entropy", horizon, _marked
        )
        for horizon in (ONE_STEP, KEPT_UP)
    )


def _steps(horizon: int) -> str:
    return "one step" if horizon == ONE_STEP else f"per step over {horizon} steps"


def _marked(row: ExpectedChange) -> str:
    if not row.known:
        return "as plain"
    value, ends = _estimate(row).split(" ", 1)
    return f"**{value}** {ends}" if row.passes else f"{value} {ends}"


def passing(found: Found) -> str:
    """Tests, and gains that pass at a false discovery rate of 5%."""
    cases = [("entropy", h) for h in HORIZONS] + [("reward", ONE_STEP)]
    return table(
        (
            *("gains in", "steps", "tested", "95% interval leaves 0 out"),
            *("expected by chance", "pass at a false discovery rate of 5%"),
        ),
        (
            (
                objective,
                str(horizon),
                str(len(rows)),
                str(sum(r.expected_low * r.expected_high > 0 for r in rows)),
                f"{0.05 * len(rows):.1f}",
                str(sum(r.passes for r in rows)),
            )
            for objective, horizon in cases
            for rows in [
                [r for own in found.values() for r in _gains(own, objective, horizon)]
            ]
        ),
    )


def variances(found: Found) -> str:
    """Standard deviation of a one-step gain between losses, batches and prompts.

    Random effects: a gain of a loss by a batch, on 256 prompts, is the loss's expected
    gain plus the batch's part and the prompts' part.
    """
    return table(
        ("standard deviation of a gain", *found),
        (
            (f"{objective}, between {what}", *cells)
            for objective in OBJECTIVES
            for what, cells in _components(found, objective).items()
        ),
    )


def _components(found: Found, objective: str) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {"losses": [], "batches": [], "prompts": []}
    for own in found.values():
        rows = _gains(own, objective, ONE_STEP)
        error = np.array([r.expected_se**2 for r in rows])
        share = np.array([r.batch_share for r in rows])
        batches = rows[0].batches
        between = np.var([r.expected for r in rows], ddof=1) - error.mean()
        parts = (
            max(between, 0.0),
            (share * error * batches).mean(),
            ((1 - share) * error).clip(0).mean(),
        )
        for cell, part in zip(cells.values(), parts, strict=True):
            cell.append(f"{np.sqrt(part):.2g}")
    return cells


def agreements(found: Found) -> str:
    """Gains predicted by the first batch, against those of other batches' steps."""
    return table(
        ("gains in", "checkpoint", "losses", "rank ρ", "slope", "R²"),
        (
            (
                *(objective, name, str(row.losses)),
                *(
                    _interval(*(getattr(row, x + e) for e in ("", "_low", "_high")))
                    for x in ("rank", "slope", "r2")
                ),
            )
            for objective in OBJECTIVES
            for name, own in found.items()
            for row in own.agreement
            if row.objective == objective
        ),
    )


def rewards(found: Found) -> str:
    """Gain in reward over plain by one step."""
    return _by_loss("gain in reward, one step", found, "reward", ONE_STEP, _marked)


def exchange(found: Found) -> str:
    """What plain's step does to expected reward, and per nat of entropy."""
    return table(
        ("checkpoint", "expected change of reward, one step", "per nat of entropy"),
        (
            (
                name,
                _estimate(row),
                _interval(row.per_nat, row.per_nat_low, row.per_nat_high),
            )
            for name, own in found.items()
            for row in [_row(own, PLAIN, "reward", ONE_STEP)]
        ),
    )


def _by_loss(
    head: str,
    found: Found,
    objective: str,
    horizon: int,
    cell: Callable[[ExpectedChange], str],
) -> str:
    names = dict.fromkeys(
        row.loss for own in found.values() for row in _every(own, objective, horizon)
    )
    rows = {
        name: {r.loss: r for r in _every(own, objective, horizon)}
        for name, own in found.items()
    }
    return table(
        (head, *found),
        (
            (loss, *(cell(own[loss]) if loss in own else "" for own in rows.values()))
            for loss in names
        ),
    )


def _every(own: CompareTables, objective: str, horizon: int) -> list[ExpectedChange]:
    return [
        r
        for r in own.expected
        if r.against and (r.objective, r.horizon) == (objective, horizon)
    ]


def _gains(own: CompareTables, objective: str, horizon: int) -> list[ExpectedChange]:
    return [r for r in _every(own, objective, horizon) if r.known]


def _row(own: CompareTables, loss: str, objective: str, horizon: int) -> ExpectedChange:
    (row,) = (
        r
        for r in own.expected
        if (r.loss, r.against, r.objective, r.horizon) == (loss, "", objective, horizon)
    )
    return row


def _gains_by_batch(own: CompareTables, objective: str) -> np.ndarray:
    """Gain over plain by each batch's own step: a row per loss, a column per batch."""
    rows: dict[str, dict[str, float]] = {}
    for r in own.batches:
        if r.objective == objective:
            rows.setdefault(r.loss, {})[r.batch] = r.change
    plain = rows.pop(PLAIN)
    x = np.array([[row[b] - plain[b] for b in plain] for row in rows.values()])
    # Losses that weigh every token as plain does have no gain.
    return x[x.any(axis=1)]


def _signal(batches: Iterable[BatchChange]) -> str:
    own = {b.batch: b for b in batches}.values()
    return f"{sum(b.groups_with_signal for b in own)} of {sum(b.groups for b in own)}"


def _estimate(row: ExpectedChange) -> str:
    return _ends(row.expected, row.expected_low, row.expected_high)


def _ends(value: float, low: float, high: float) -> str:
    return _interval(value, low, high, 4)


def _interval(value: float, low: float, high: float, digits: int = 2) -> str:
    if not np.isfinite(low):
        return "not known"
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


if __name__ == "__main__":
    print(tables(committed()))
