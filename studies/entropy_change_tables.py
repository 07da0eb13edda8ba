"""The tables of the README, from the rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from entrometer.runs.tables.measure import MeasureTables
from studies.entropy_change_halves import Halves
from studies.markdown import table


def tables(found: Mapping[str, MeasureTables], halves: Sequence[Halves]) -> str:
    """All of them, as Markdown."""
    parts = [
        _power(found["float64"]),
        _errors(found),
        _calibration(found["float32"], halves),
        f"Mean coverage by halves: {np.mean([x.covered for x in halves]):.3f}",
        _needed(found["float32"]),
        _variances(found["float32"]),
        _convergence(found["float32"]),
    ]
    return "\n\n".join(parts)


def _power(found: MeasureTables) -> str:
    return table(
        (
            *("checkpoint", "weighting", "slope of log Δh on log η", "R²"),
            *("from", "to", "η*", "smallest η"),
        ),
        (
            (
                *(f"{t.checkpoint}, {t.update}", _way(t)),
                f"{t.power:.6f} ± {t.power_se:.6f}",
                *(f"{t.power_r2:.9f}", f"{t.power_from:.0e}", f"{t.power_to:.0e}"),
                *(f"{t.eta_star:.2g}", f"{t.smallest_eta:.0e}"),
            )
            for t in found.terms
            if t.per == "token" and t.baseline in ("none", "prefix")
        ),
    )


def _errors(found: Mapping[str, MeasureTables]) -> str:
    return table(
        ("run", "η", "pair", "mean", "standard deviation, worst of the updates"),
        (
            (name, f"{eta:.2g}", pair, f"{worst.mean:+.2g}", f"{worst.deviation:.2g}")
            for name, run in found.items()
            for eta in sorted({e.eta for e in run.errors})
            for pair in dict.fromkeys(e.pair for e in run.errors)
            for own in [[e for e in run.errors if (e.eta, e.pair) == (eta, pair)]]
            for worst in [max(own, key=lambda e: e.deviation)]
        ),
    )


def _calibration(found: MeasureTables, halves: Sequence[Halves]) -> str:
    covered = {(x.checkpoint, x.update, x.eta): x.covered for x in halves}
    star = {
        (t.checkpoint, t.update): t.eta_star
        for t in found.terms
        if (t.weighting, t.per) == ("per_decision", "token")
    }
    return table(
        (
            *("checkpoint, update", "η", "observed Δh", "predicted δh₁"),
            *("difference, paired", "η*", "covered by halves"),
        ),
        (
            (
                *(f"{c.checkpoint}, {c.update}", f"{c.eta:.2g}"),
                f"{c.observed:+.5f} ± {c.observed_se:.5f}",
                f"{c.linear:+.5f} ± {c.linear_se:.5f}",
                f"{c.error:+.5f} ± {c.error_se:.5f}",
                f"{star[c.checkpoint, c.update]:.2g}",
                f"{covered[c.checkpoint, c.update, c.eta]:.2f}",
            )
            for c in found.changes
            if (c.weighting, c.per) == ("per_decision", "token")
        ),
    )


def _needed(found: MeasureTables) -> str:
    return table(
        ("entropy", "quantity", "weighting", "fewer prompts, median [least, most]"),
        _spared(found),
    )


def _spared(found: MeasureTables) -> Iterator[list[str]]:
    for per in ("sequence", "token"):
        for quantity in ("slope", "change"):
            rows = [n for n in found.needed if (n.per, n.quantity) == (per, quantity)]
            for way in dict.fromkeys(_way(n) for n in rows):
                factors = [n.factor for n in rows if _way(n) == way]
                ends = f"[{min(factors):.1f}, {max(factors):.1f}]"
                median = f"{np.median(factors):.1f}"
                yield [f"per {per}", quantity, way, f"{median} {ends}"]


def _variances(found: MeasureTables) -> str:
    return table(
        (
            *("checkpoint, update", "this batch's part of h′", "V_X", "V_Y", "V_XY"),
            *("one batch, per sequence", "Hoeffding", "jackknife"),
        ),
        (
            (
                *(f"{v.checkpoint}, {v.update}", f"{v.value:+.1f}"),
                *(f"{x:.1f}" for x in (v.evaluation, v.update_batch, v.both)),
                f"{v.one_batch:+.0f}",
                f"{v.one_batch_hoeffding_se:.0f}",
                f"{v.one_batch_jackknife_se:.0f}",
            )
            for v in found.variances
        ),
    )


def _convergence(found: MeasureTables) -> str:
    return table(
        ("checkpoint", "prompts", "estimator", "mean", "50%", "80%", "95%"),
        (
            (
                *(c.checkpoint, str(c.prompts), c.estimator),
                *(f"{x:.4f}" for x in (c.mean, c.error_50, c.error_80, c.error_95)),
            )
            for c in found.convergence
            if c.prompts in (32, 256)
        ),
    )


def _way(row: object) -> str:
    weighting, baseline = (getattr(row, name) for name in ("weighting", "baseline"))
    plain = weighting.replace("_", " ")
    return plain if baseline == "none" else f"{plain}, {baseline}"
