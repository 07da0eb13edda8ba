"""The tables of the README, from the rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from entrometer.runs.measurement import Measurement
from studies.entropy_change_halves import Halves


def tables(found: Mapping[str, Measurement], halves: Sequence[Halves]) -> str:
    """All of them, as Markdown."""
    parts = [
        _power(found["float64"]),
        _errors(found),
        _calibration(found["float32"], halves),
        _needed(found["float32"]),
        _variances(found["float32"]),
        _convergence(found["float32"]),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _power(found: Measurement) -> Iterator[str]:
    yield (
        "| checkpoint | weighting | slope of log Δh on log η | R² | from | to | η* | "
        "smallest η |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for t in found.terms:
        if t.per == "token" and t.baseline in ("none", "prefix"):
            yield (
                f"| {t.checkpoint}, {t.update} | {_way(t)} | {t.power:.6f} ± "
                f"{t.power_se:.6f} | {t.power_r2:.9f} | {t.power_from:.0e} | "
                f"{t.power_to:.0e} | {t.eta_star:.2g} | {t.smallest_eta:.0e} |"
            )


def _errors(found: Mapping[str, Measurement]) -> Iterator[str]:
    yield "| run | η | pair | mean | standard deviation, worst of the updates |"
    yield "|---|---|---|---|---|"
    for name, run in found.items():
        for eta in sorted({e.eta for e in run.errors}):
            for pair in dict.fromkeys(e.pair for e in run.errors):
                own = [e for e in run.errors if (e.eta, e.pair) == (eta, pair)]
                worst = max(own, key=lambda e: e.deviation)
                yield (
                    f"| {name} | {eta:.2g} | {pair} | {worst.mean:+.2g} | "
                    f"{worst.deviation:.2g} |"
                )


def _calibration(found: Measurement, halves: Sequence[Halves]) -> Iterator[str]:
    yield (
        "| checkpoint, update | η | observed Δh | predicted δh₁ | difference, paired | "
        "η* | covered by halves |"
    )
    yield "|---|---|---|---|---|---|---|"
    covered = {(x.checkpoint, x.update, x.eta): x.covered for x in halves}
    star = {
        (t.checkpoint, t.update): t.eta_star
        for t in found.terms
        if (t.weighting, t.per) == ("per_decision", "token")
    }
    for c in found.changes:
        if (c.weighting, c.per) == ("per_decision", "token"):
            key = (c.checkpoint, c.update)
            yield (
                f"| {c.checkpoint}, {c.update} | {c.eta:.2g} | "
                f"{c.observed:+.5f} ± {c.observed_se:.5f} | "
                f"{c.linear:+.5f} ± {c.linear_se:.5f} | "
                f"{c.error:+.5f} ± {c.error_se:.5f} | {star[key]:.2g} | "
                f"{covered[(*key, c.eta)]:.2f} |"
            )
    yield ""
    yield f"Mean coverage by halves: {np.mean([x.covered for x in halves]):.3f}"


def _needed(found: Measurement) -> Iterator[str]:
    yield "| entropy | quantity | weighting | fewer prompts, median [least, most] |"
    yield "|---|---|---|---|"
    for per in ("sequence", "token"):
        for quantity in ("slope", "change"):
            rows = [n for n in found.needed if (n.per, n.quantity) == (per, quantity)]
            for way in dict.fromkeys(_way(n) for n in rows):
                factors = [n.factor for n in rows if _way(n) == way]
                yield (
                    f"| per {per} | {quantity} | {way} | {np.median(factors):.1f} "
                    f"[{min(factors):.1f}, {max(factors):.1f}] |"
                )


def _variances(found: Measurement) -> Iterator[str]:
    yield (
        "| checkpoint, update | this batch's part of h′ | V_X | V_Y | V_XY | "
        "one batch, per sequence | Hoeffding | jackknife |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for v in found.variances:
        yield (
            f"| {v.checkpoint}, {v.update} | {v.value:+.1f} | {v.evaluation:.1f} | "
            f"{v.update_batch:.1f} | {v.both:.1f} | {v.one_batch:+.0f} | "
            f"{v.one_batch_hoeffding_se:.0f} | {v.one_batch_jackknife_se:.0f} |"
        )


def _convergence(found: Measurement) -> Iterator[str]:
    yield "| checkpoint | prompts | estimator | mean | 50% | 80% | 95% |"
    yield "|---|---|---|---|---|---|---|"
    for c in found.convergence:
        if c.prompts in (32, 256):
            yield (
                f"| {c.checkpoint} | {c.prompts} | {c.estimator} | {c.mean:.4f} | "
                f"{c.error_50:.4f} | {c.error_80:.4f} | {c.error_95:.4f} |"
            )


def _way(row: object) -> str:
    weighting, baseline = (getattr(row, name) for name in ("weighting", "baseline"))
    plain = weighting.replace("_", " ")
    return plain if baseline == "none" else f"{plain}, {baseline}"
