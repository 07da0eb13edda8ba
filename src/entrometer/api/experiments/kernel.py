"""How much a step made from one response moves another."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from entrometer.api.experiment import Experiment, Functions, records
from entrometer.api.output import interval, table
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.kernel import KernelTables, Whole


def _functions() -> Functions:
    from entrometer.experiments.kernel.forecast import foresee
    from entrometer.experiments.kernel.kernel import kernel

    return Functions(kernel, foresee)


def _text(directory: Path) -> Sequence[str]:
    found = read_tables(directory, KernelTables)
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
        table(["checkpoint", "metric", *heads], rows, words=2)
        + "\nNoise scale in prompts; brackets: 95% intervals, clustered by prompt."
    )


def _noise(w: Whole) -> str:
    return f"{w.noise_scale:.3g} [{w.noise_scale_low:.2g}, {w.noise_scale_high:.2g}]"


def _blocks(found: KernelTables) -> str:
    return table(
        ["checkpoint", "metric", "block", "kernel", "cosine", "grows as length to the"],
        list(_block_rows(found)),
        words=3,
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


def _rows(directory: Path) -> dict[str, Any]:
    return records(
        read_tables(directory, KernelTables),
        "signal",
        "whole",
        "blocks",
        "growth",
        "predictions",
        "sketches",
    )


KERNEL = Experiment(
    verb="kernel",
    kind="kernel",
    tables=table_classes(KernelTables),
    config=KernelConfig,
    functions=_functions,
    text=_text,
    rows=_rows,
)
