"""Evaluations of checkpoints on a report page."""

from collections.abc import Sequence

from entrometer.report import cells
from entrometer.report.cards import direction, estimate_card
from entrometer.report.kinds import Answer, FinishedRun, PageParts, Section
from entrometer.report.numbers import Interval
from entrometer.report.table import Table, columns_table
from entrometer.runs.tables.evaluation import Evaluated, EvaluationTables

EvaluationRun = FinishedRun[EvaluationTables]
_QUANTITIES = {
    "pass_at_1": ("%", "of the responses are right (pass@1)"),
    "entropy": ("nats per token", "entropy"),
    "length": ("tokens", "mean length of a response"),
    "truncated": ("%", "of the responses reach the length limit"),
}
_SHARES = ("pass_at_1", "truncated")


def answer(run: EvaluationRun) -> Answer | None:
    """Return how good the last checkpoint is, and how that changed since the first."""
    rows = run.tables.results
    if not rows:
        return None
    step = max(row.step for row in rows)
    last = {row.quantity: row for row in rows if row.step == step}
    cards = [
        estimate_card(_scaled(last[name], "value"), unit, label, signed=False)
        for name, (unit, label) in _QUANTITIES.items()
        if name in last
    ]
    passed = last.get("pass_at_1")
    if passed is None:
        return Answer(f"step {step}", _asked(rows), tuple(cards))
    value, change = _scaled(passed, "value"), Interval.of(passed, "change")
    title = f"{value.value:.0f}% of the responses are right at step {step}"
    text = f"pass@1 is {value}% at step {step}"
    if change.known:
        first = min(row.step for row in rows)
        text += (
            f" and {direction(change)} since step {first}, by "
            f"{_scaled(passed, 'change')} percentage points"
        )
    return Answer(title, f"{text}. {_asked(rows)}", tuple(cards))


def _scaled(row: Evaluated, name: str) -> Interval:
    """Return an estimate of a row, shares in per cent."""
    factor = 100.0 if row.quantity in _SHARES else 1.0
    return Interval(*(factor * x for x in Interval.of(row, name)))


def _asked(rows: Sequence[Evaluated]) -> str:
    return f"{rows[0].prompts:,} problems, {rows[0].responses:,} responses."


def results(runs: Sequence[EvaluationRun]) -> Table | None:
    """Return a table of every quantity of every checkpoint; None without rows."""
    rows = [
        ((run.name, row.checkpoint, row.quantity.replace("_at_", "@")), row)
        for run in runs
        for row in run.tables.results
    ]
    columns = {
        "step": cells.number("step"),
        "value": cells.interval("value"),
        "change since the first": cells.interval("change"),
        "problems": cells.number("prompts"),
        "responses": cells.number("responses"),
    }
    caption = (
        "Quantities by checkpoint with 95% intervals, clustered by problem; length in "
        "tokens, entropy in nats per token, the others are shares from 0 to 1"
    )
    heads = ("run", "checkpoint", "quantity")
    return columns_table(caption, heads, columns, rows, 3) if rows else None


PARTS = PageParts[EvaluationTables](
    answer=answer, sections=(Section("Every checkpoint", tables=(results,)),)
)
