"""How much a step on one response changes another: `entrometer kernel`."""

from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.kernel import KernelTables
from entrometer.text import interval_of, table


def _steps() -> Steps:
    # Imported on use: these modules import torch, which `--help` does without.
    from entrometer.experiments.kernel.collect import collect
    from entrometer.experiments.kernel.plan import plan
    from entrometer.experiments.kernel.summary import summarize

    return Steps(plan, collect, summarize)


def _page() -> PageParts[KernelTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.kernel import PARTS

    return PARTS


def _text(tables: KernelTables) -> Sequence[str]:
    whole = [
        [
            w.checkpoint,
            w.metric,
            str(w.responses),
            f"{w.trace:.3g}",
            f"{w.effective_rank:.3g}",
            f"{w.off_diagonal:.0%}",
            f"{w.noise_scale:.3g} [{w.noise_scale_low:.2g}, {w.noise_scale_high:.2g}]",
        ]
        for w in tables.whole
    ]
    heads = ["responses", "trace", "effective rank", "off diagonal", "noise scale"]
    note = "\nNoise scale in prompts; brackets: 95% intervals, clustered by prompt."
    means = {
        (b.checkpoint, b.metric, b.block, b.quantity): interval_of(b, "mean")
        for b in tables.blocks
    }
    blocks = []
    for g in tables.growth:
        name = (g.checkpoint, g.metric, g.block)
        power = f"{g.power:.2f} ± {g.power_se:.1g}"
        blocks.append([*name, means[*name, "kernel"], means[*name, "cosine"], power])
    labels = ["checkpoint", "metric"]
    block_heads = [*labels, "block", "kernel", "cosine", "grows as length to the"]
    return [
        table([*labels, *heads], whole, label_columns=2) + note,
        table(block_heads, blocks, label_columns=3),
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
        # Excluded from comparisons of two runs: a time is never the same twice.
        unstable={"whole": ("seconds",)},
    )
)
