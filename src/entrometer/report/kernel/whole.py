"""Each kernel in a few numbers."""

from collections.abc import Sequence

from entrometer.report.kernel.subjects import KernelRun
from entrometer.report.numbers import interval, number, percent
from entrometer.report.table import Table, table


def whole_kernels(runs: Sequence[KernelRun]) -> Table | None:
    """A row for each checkpoint and metric."""
    rows = [
        [
            *(run.name, row.checkpoint, row.metric, number(row.step)),
            *(number(row.responses), number(row.prompts), f"{row.parameters:,}"),
            *(number(row.trace), number(row.effective_rank)),
            percent(row.off_diagonal),
            number(row.noise_scale),
            interval(row.noise_scale_low, row.noise_scale_high),
            number(row.seconds),
        ]
        for run in runs
        for row in run.tables.whole
    ]
    if not rows:
        return None
    return table(
        "The kernel of each checkpoint and metric: trace, effective rank (Σλ)²/Σλ², "
        "share of the squared elements that is off the diagonal, the noise scale in "
        "prompts with its 95% interval, and the seconds that rows and products took",
        (
            *("run", "checkpoint", "metric", "step", "responses", "prompts"),
            *("parameters", "trace", "effective rank", "off diagonal"),
            *("noise scale", "95% interval", "seconds"),
        ),
        rows,
        words=3,
    )
