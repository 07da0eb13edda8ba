"""pass@k of the checkpoints that were evaluated."""

from matplotlib.axes import Axes

from entrometer.report.numbers import interval, number
from entrometer.report.plot import Plot
from entrometer.report.style import LOOKS, say
from entrometer.report.table import table
from entrometer.report.training.over_steps import (
    Runs,
    column,
    estimate,
    from_to,
    name_of,
    one_panel,
)
from entrometer.runs import Metrics


def passes(runs: Runs) -> Plot | None:
    """Points with intervals, a line for each k and run."""
    evaluated = [
        r for r in runs if r.tables.evaluation is not None and _ks(r.tables.evaluation)
    ]
    if not evaluated:
        return None
    first = _ks(evaluated[0].tables.evaluation or {})[0]
    rows = [
        [
            *(run.name, f"pass@{k}", number(float(found["step"][i]))),
            *(number(float(found[f"pass_at_{k}"][i])), _ends(found, k, i)),
        ]
        for run in evaluated
        if (found := run.tables.evaluation)
        for k in _ks(found)
        for i in range(len(found["step"]))
    ]
    solved = from_to(
        evaluated, lambda r: column(r.tables.evaluation or {}, f"pass_at_{first}")
    )
    return Plot(
        key="training-passes",
        title="Held-out problems solved",
        caption=f"From the first checkpoint to the last pass@{first} goes {solved}.",
        description=(
            "Share of held-out problems that are solved, pass@k, against the optimizer "
            "step, with 95% intervals."
        ),
        table=table(
            "pass@k of held-out problems, with 95% interval clustered by problem",
            ("run", "k", "step", "share", "interval"),
            rows,
            words=2,
        ),
        draw=lambda: one_panel(passes_panel, evaluated),
    )


def passes_panel(ax: Axes, runs: Runs) -> None:
    """Draw it."""
    ax.set_title("Held-out problems solved")
    ax.set_ylabel("share, with 95% interval")
    ax.set_ylim(0, 1)
    series = [
        (name_of(runs, run, f"pass@{k}"), run.tables.evaluation, f"pass_at_{k}")
        for run in runs
        if run.tables.evaluation is not None
        for k in _ks(run.tables.evaluation)
    ]
    if not series:
        say(ax, "not evaluated")
        return
    for (words, evaluation, name), look in zip(series, LOOKS, strict=False):
        estimate(ax, evaluation, name, words, look)
    ax.legend(loc="lower right")


def _ks(evaluation: Metrics) -> list[int]:
    found = [n.removeprefix("pass_at_") for n in evaluation if n.startswith("pass_at_")]
    return sorted(int(k) for k in found if k.isdecimal())


def _ends(evaluation: Metrics, k: int, i: int) -> str:
    ends = (column(evaluation, f"pass_at_{k}_{end}")[i] for end in ("low", "high"))
    return interval(*map(float, ends))
