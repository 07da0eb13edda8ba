"""The tables of the README, from the rows.

Usage: python -m studies.workbench_methods_tables, from the root of the repository,
prints them from the tables in studies/workbench-methods. It takes seconds and measures
nothing.

A mean over updates has Student's interval over the eight update batches, each judged on
its own eighth of the evaluation prompts: it covers updates and prompts.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from studies.collected import committed_tables
from studies.markdown import table
from studies.workbench_methods.gradient_tables import gradient_tables
from studies.workbench_methods.rows import MethodTables, RelativeError
from studies.workbench_methods.spread import ends, mean_interval
from studies.workbench_methods.where import HERE

RESPONSES = 256
"""Responses of the simulated samples that are shown."""


def tables(found: MethodTables) -> str:
    """All of them that have rows, as Markdown."""
    parts: tuple[Callable[[MethodTables], str], ...] = (
        *(simulated, weighed, predicted, errors, tails, powers),
        *gradient_tables,
    )
    return "\n\n".join(
        text for part in parts if len((text := part(found)).splitlines()) > 2
    )


def simulated(found: MethodTables) -> str:
    """Bias and standard deviation of the weights on the enumerated policy."""
    rows = [r for r in found.simulated if r.responses == RESPONSES]
    plain = {r.step: r for r in rows if r.estimator.startswith("plain")}
    return table(
        (
            *("enumerated policy", "effective share", "estimator"),
            *("bias, share of the change", "standard deviation, plain = 1"),
            "by enumeration",
        ),
        (
            (
                *(r.step, f"{r.effective:.2g}", r.estimator),
                f"{r.bias / abs(r.truth):+.1%} ± {r.bias_se / abs(r.truth):.1%}",
                f"{r.deviation / plain[r.step].deviation:.2f}",
                f"{r.exact / plain[r.step].exact:.2f}",
            )
            for r in rows
        ),
    )


def weighed(found: MethodTables) -> str:
    """The same weights on the workbench, over updates."""
    keys = dict.fromkeys((r.checkpoint, r.estimator) for r in found.weighed)
    rows = []
    for key in keys:
        own = [r for r in found.weighed if (r.checkpoint, r.estimator) == key]
        change = np.mean([r.change for r in own])
        # Each update's ratio to weights per decision, on the same prompts.
        decisions = [
            r.factor
            for r in found.weighed
            if (r.checkpoint, r.estimator) == (key[0], "weights per decision")
        ]
        ratios = [r.factor / other for r, other in zip(own, decisions, strict=True)]
        bias = mean_interval([r.bias for r in own])
        unbiased = key[1].startswith("plain")
        rows.append(
            (
                *key,
                f"{np.mean([r.effective for r in own]):.3f}",
                f"{change:+.4f}",
                "1" if unbiased else _geometric([r.factor for r in own]),
                "1" if own[0].factor == decisions[0] else _geometric(ratios),
                "0" if unbiased else ends("+.5f", bias),
            )
        )
    return table(
        (
            *("checkpoint", "weights", "effective share", "mean change per response"),
            *("prompts needed, plain = 1", "prompts needed, per decision = 1"),
            "bias with 64 prompts, nats",
        ),
        rows,
    )


def predicted(found: MethodTables) -> str:
    """Predicted and observed change of each update on the whole evaluation batch."""
    most = max((r.prompts for r in found.predictions), default=0)
    return table(
        (
            *("checkpoint, update; ± given it", "observed Δh", "predicted δh₁"),
            *("difference, paired", f"paired, {most // 2:,} prompts"),
            "predicted on one half less observed on the other",
        ),
        (
            (
                f"{r.checkpoint.removeprefix('checkpoint-')}, {r.update}",
                _pm(r.observed, r.observed_se),
                _pm(r.predicted, r.predicted_se),
                _pm(r.error, r.error_se),
                _pm(half.error, half.error_se),
                _pm(r.apart, r.apart_se),
            )
            for half, r in zip(
                found.predictions[::2], found.predictions[1::2], strict=True
            )
        ),
    )


def errors(found: MethodTables) -> str:
    """Relative error over synthetic batches by size; median over updates, and range."""
    return table(
        (
            *("checkpoint", "pair, learning rate", "prompts", "mean"),
            *("standard deviation", "1% quantile", "99% quantile"),
        ),
        (
            (
                *key,
                *(
                    _range(".3f", list(column))
                    for column in zip(
                        *(
                            (r.mean, r.deviation, r.quantiles[1], r.quantiles[99])
                            for r in own
                        ),
                        strict=True,
                    )
                ),
            )
            for key, own in _scattered(found)
        ),
    )


def tails(found: MethodTables) -> str:
    """How heavy the tails of the relative error are."""
    return table(
        (
            *("checkpoint", "pair, learning rate", "prompts", "excess kurtosis"),
            "(99% − 1%) / (75% − 25%), normal 3.45",
            "observed with the other sign",
        ),
        (
            (
                *key,
                _range(".1f", [r.excess_kurtosis for r in own]),
                _range(".2f", [_tail(r) for r in own]),
                _range(".1%", [r.reversed for r in own]),
            )
            for key, own in _scattered(found)
        ),
    )


def _scattered(
    found: MethodTables,
) -> list[tuple[tuple[str, str, str], list[RelativeError]]]:
    groups: dict[tuple[str, str, str], list[RelativeError]] = {}
    for r in found.errors:
        pair = f"{r.pair}, η × {r.multiple:g}"
        groups.setdefault((r.checkpoint, pair, f"{r.size:,}"), []).append(r)
    return list(groups.items())


def _tail(row: RelativeError) -> float:
    q = row.quantiles
    return (q[99] - q[1]) / (q[75] - q[25])


def powers(found: MethodTables) -> str:
    """Slope of log |Δh| on log η by range, over updates."""
    keys = dict.fromkeys((r.checkpoint, r.lowest, r.highest) for r in found.powers)
    rows = []
    for key in keys:
        own = [r for r in found.powers if (r.checkpoint, r.lowest, r.highest) == key]
        whole, apart = ([getattr(r, x) for r in own] for x in ("whole", "own"))
        rows.append(
            (
                key[0],
                f"{key[1]:g} to {key[2]:g}",
                f"{np.mean(whole):.4f} ± {np.std(whole, ddof=1):.4f}",
                f"{min(whole):.4f} to {max(whole):.4f}",
                ends(".3f", mean_interval(apart)),
            )
        )
    return table(
        (
            *("checkpoint", "learning rates over the training's"),
            *("slope of log Δh on log η, ± its deviation over updates", "range"),
            "mean over updates, each on its own prompts",
        ),
        rows,
    )


def _geometric(ratios: Sequence[float]) -> str:
    """Return a geometric mean with its interval over updates."""
    logs = mean_interval([math.log(x) for x in ratios])
    return ends(".2f", [math.exp(x) for x in logs])


def _pm(value: float, se: float) -> str:
    return f"{value:+.5f} ± {se:.5f}"


def _range(kind: str, values: Sequence[float]) -> str:
    """Return the median over updates, and the least and the most."""
    middle = (float(np.median(values)), min(values), max(values))
    return ends(kind, middle)


if __name__ == "__main__":
    print(tables(committed_tables(HERE, MethodTables)))
