"""How much a step on one response moves another: `entrometer kernel`."""

from collections.abc import Iterator, Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.kernel import KernelTables, Whole
from entrometer.text import interval, table


def _steps() -> Steps:
    from entrometer.experiments.kernel.collect import collect
    from entrometer.experiments.kernel.plan import plan
    from entrometer.experiments.kernel.summary import summarize

    return Steps(plan, collect, summarize)


def _page() -> PageParts[KernelTables]:
    from entrometer.report.kernel import PARTS

    return PARTS


def _text(found: KernelTables) -> Sequence[str]:
    return [_whole(found), _blocks(found)]


def _whole(found: KernelTables) -> str:
    rows = [
        [
            w.checkpoint,
            w.metric,
            str(w.responses),
            f"{w.trace:.3g}",
            f"{w.effective_rank:.3g}",
            f"{w.off_diagonal:.0%}",
            _noise(w),
        ]
        for w in found.whole
    ]
    heads = ["responses", "trace", "effective rank", "off diagonal", "noise scale"]
    return (
        table(["checkpoint", "metric", *heads], rows, label_columns=2)
        + "\nNoise scale in prompts; brackets: 95% intervals, clustered by prompt."
    )


def _noise(w: Whole) -> str:
    return f"{w.noise_scale:.3g} [{w.noise_scale_low:.2g}, {w.noise_scale_high:.2g}]"


def _blocks(found: KernelTables) -> str:
    return table(
        ["checkpoint", "metric", "block", "kernel", "cosine", "grows as length to the"],
        list(_block_rows(found)),
        label_columns=3,
    )


def _block_rows(found: KernelTables) -> Iterator[list[str]]:
    told = {(b.checkpoint, b.metric, b.block, b.quantity): b for b in found.blocks}
    for g in found.growth:
        name = (g.checkpoint, g.metric, g.block)
        means = (told[*name, quantity] for quantity in ("kernel", "cosine"))
        yield [
            *name,
            *(interval(b.mean, b.mean_low, b.mean_high) for b in means),
            f"{g.power:.2f} ± {g.power_se:.1g}",
        ]


_PRINTED = ("signal", "whole", "blocks", "growth", "predictions", "sketches")
"""Tables that `--json` prints: all but single eigenvalues and elements."""

KERNEL = register(
    Experiment(
        name="kernel",
        help="Measure how much a step on one response changes the log-probability of "
        "another.",
        config=KernelConfig,
        tables=KernelTables,
        steps=_steps,
        text=_text,
        json_rows=lambda tables: {name: getattr(tables, name) for name in _PRINTED},
        page=_page,
        unstable={"whole": ("seconds",)},
    )
)
