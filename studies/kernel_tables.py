"""The tables of the README, from the rows."""

from collections.abc import Iterator

import numpy as np

from entrometer.runs.kernel import KernelTables


def tables(found: KernelTables) -> str:
    """All of them, as Markdown."""
    parts = (_whole, _blocks, _spectrum, _growth, _predictions, _sketches)
    return "\n\n".join("\n".join(part(found)) for part in parts)


def _whole(found: KernelTables) -> Iterator[str]:
    yield (
        "| checkpoint | metric | trace | effective rank | off-diagonal | noise "
        "scale, prompts |"
    )
    yield "|---|---|---|---|---|---|"
    for w in found.whole:
        yield (
            f"| {w.checkpoint} | {w.metric} | {w.trace:.3g} | {w.effective_rank:.1f} "
            f"of {w.responses} | {w.off_diagonal:.2f} | {w.noise_scale:.3g} "
            f"[{w.noise_scale_low:.3g}, {w.noise_scale_high:.3g}] |"
        )


def _blocks(found: KernelTables) -> Iterator[str]:
    yield "| checkpoint | metric | block | quantity | mean | root mean square |"
    yield "|---|---|---|---|---|---|"
    for b in found.blocks:
        yield (
            f"| {b.checkpoint} | {b.metric} | {b.block} | {b.quantity} | {b.mean:+.3g} "
            f"[{b.mean_low:+.2g}, {b.mean_high:+.2g}] | {b.size:.3g} |"
        )


def _spectrum(found: KernelTables) -> Iterator[str]:
    yield "| checkpoint | metric | rank | share of the trace | by Marchenko-Pastur |"
    yield "|---|---|---|---|---|"
    traces = {(w.checkpoint, w.metric): w.trace for w in found.whole}
    for e in found.eigenvalues:
        if e.method == "dense" and e.rank in (1, 2, 5, 20, 100):
            trace = traces[e.checkpoint, e.metric]
            yield (
                f"| {e.checkpoint} | {e.metric} | {e.rank} | {e.value / trace:.2g} | "
                f"{e.wishart / trace:.2g} |"
            )


def _growth(found: KernelTables) -> Iterator[str]:
    yield "| checkpoint | metric | block | power of the length |"
    yield "|---|---|---|---|"
    for g in found.growth:
        yield (
            f"| {g.checkpoint} | {g.metric} | {g.block} | {g.power:+.2f} ± "
            f"{g.power_se:.2f} |"
        )


def _predictions(found: KernelTables) -> Iterator[str]:
    yield (
        "| checkpoint | held out | root mean square δS, nats | error of the whole "
        "step's prediction | of this batch's alone | correlation | this batch's alone |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(p.checkpoint for p in found.predictions):
        own = [p for p in found.predictions if p.checkpoint == name]
        seen, whole, batch = (
            np.array([getattr(p, x) for p in own])
            for x in ("observed", "predicted", "own")
        )
        size = np.sqrt(np.mean(seen**2))
        errors = [np.sqrt(np.mean((x - seen) ** 2)) / size for x in (whole, batch)]
        alike = [np.corrcoef(x, seen)[0, 1] for x in (whole, batch)]
        yield (
            f"| {name} | {len(own)} | {size:.3g} | {errors[0]:.2f} | {errors[1]:.2f} | "
            f"{alike[0]:.3f} | {alike[1]:.3f} |"
        )


def _sketches(found: KernelTables) -> Iterator[str]:
    yield "| checkpoint | metric | buckets | error | by theory |"
    yield "|---|---|---|---|---|"
    for s in found.sketches:
        yield (
            f"| {s.checkpoint} | {s.metric} | {s.m} | {s.error:.3g} | "
            f"{s.expected:.3g} |"
        )
