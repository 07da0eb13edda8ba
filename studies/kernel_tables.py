"""The tables of the README, from the rows."""

from collections.abc import Iterator

import numpy as np

from entrometer.runs.tables.kernel import KernelTables
from studies.markdown import table


def tables(found: KernelTables) -> str:
    """All of them, as Markdown."""
    parts = (_whole, _blocks, _spectrum, _growth, _predictions, _sketches)
    return "\n\n".join(part(found) for part in parts)


def _whole(found: KernelTables) -> str:
    return table(
        (
            *("checkpoint", "metric", "trace", "effective rank", "off-diagonal"),
            "noise scale, prompts",
        ),
        (
            (
                *(w.checkpoint, w.metric, f"{w.trace:.3g}"),
                f"{w.effective_rank:.1f} of {w.responses}",
                f"{w.off_diagonal:.2f}",
                f"{w.noise_scale:.3g} [{w.noise_scale_low:.3g}, "
                f"{w.noise_scale_high:.3g}]",
            )
            for w in found.whole
        ),
    )


def _blocks(found: KernelTables) -> str:
    return table(
        ("checkpoint", "metric", "block", "quantity", "mean", "root mean square"),
        (
            (
                *(b.checkpoint, b.metric, b.block, b.quantity),
                f"{b.mean:+.3g} [{b.mean_low:+.2g}, {b.mean_high:+.2g}]",
                f"{b.size:.3g}",
            )
            for b in found.blocks
        ),
    )


def _spectrum(found: KernelTables) -> str:
    traces = {(w.checkpoint, w.metric): w.trace for w in found.whole}
    return table(
        ("checkpoint", "metric", "rank", "share of the trace", "by Marchenko-Pastur"),
        (
            (
                *(e.checkpoint, e.metric, str(e.rank)),
                *(f"{x / trace:.2g}" for x in (e.value, e.wishart)),
            )
            for e in found.eigenvalues
            if e.method == "dense" and e.rank in (1, 2, 5, 20, 100)
            for trace in [traces[e.checkpoint, e.metric]]
        ),
    )


def _growth(found: KernelTables) -> str:
    return table(
        ("checkpoint", "metric", "block", "power of the length"),
        (
            (g.checkpoint, g.metric, g.block, f"{g.power:+.2f} ± {g.power_se:.2f}")
            for g in found.growth
        ),
    )


def _predictions(found: KernelTables) -> str:
    return table(
        (
            *("checkpoint", "held out", "root mean square δS, nats"),
            *("error of the whole step's prediction", "of this batch's alone"),
            *("correlation", "this batch's alone"),
        ),
        _predicted(found),
    )


def _predicted(found: KernelTables) -> Iterator[list[str]]:
    for name in dict.fromkeys(p.checkpoint for p in found.predictions):
        own = [p for p in found.predictions if p.checkpoint == name]
        seen, whole, batch = (
            np.array([getattr(p, x) for p in own])
            for x in ("observed", "predicted", "own")
        )
        size = np.sqrt(np.mean(seen**2))
        errors = [np.sqrt(np.mean((x - seen) ** 2)) / size for x in (whole, batch)]
        alike = [np.corrcoef(x, seen)[0, 1] for x in (whole, batch)]
        yield [
            *(name, str(len(own)), f"{size:.3g}"),
            *(f"{x:.2f}" for x in errors),
            *(f"{x:.3f}" for x in alike),
        ]


def _sketches(found: KernelTables) -> str:
    return table(
        ("checkpoint", "metric", "buckets", "error", "by theory"),
        (
            (s.checkpoint, s.metric, str(s.m), f"{s.error:.3g}", f"{s.expected:.3g}")
            for s in found.sketches
        ),
    )
