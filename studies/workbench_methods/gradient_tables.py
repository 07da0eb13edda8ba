"""The tables on gradients: prefixes, edits, adapters, noise and parallel pairs."""

from collections.abc import Callable

import numpy as np

from studies.markdown import table
from studies.workbench_methods.noise import UNITS
from studies.workbench_methods.rows import (
    Agreement,
    Feature,
    MethodTables,
    Noise,
    Prefix,
)
from studies.workbench_methods.spread import (
    ends,
    mean_interval,
    median_interval,
    ratio_interval,
)

BLOCKS = {"prompt": "same prompt", "other": "other prompts"}


def prefixes(found: MethodTables) -> str:
    """Cosines by the number of leading tokens that two responses share."""
    sgd = {_of(r): r for r in found.prefixes if r.metric == "sgd"}
    return table(
        (
            *("checkpoint", "pairs of", "shared tokens", "number of pairs"),
            *("mean cosine, adam", "its size, adam", "mean cosine, sgd"),
        ),
        (
            (
                *(r.checkpoint, BLOCKS[r.block]),
                "all, the same response" if r.shared < 0 else str(r.shared),
                f"{r.pairs:,}",
                ends("+.2f", _within(-1, r.mean, r.mean_low, r.mean_high)),
                ends(".2f", _within(0, r.size, r.size_low, r.size_high)),
                ends("+.2f", _within(-1, s.mean, s.mean_low, s.mean_high)),
            )
            for r in sorted(found.prefixes, key=_order)
            if r.metric == "adam"
            for s in [sgd[_of(r)]]
        ),
    )


def _within(
    least: float, value: float, low: float, high: float
) -> tuple[float, float, float]:
    """Return an interval cut to where a cosine can be."""
    # A jackknife over few prompts does not know that.
    low, high = (float(np.clip(x, least, 1.0)) for x in (low, high))
    return value, low, high


def _of(row: Prefix) -> tuple[str, str, int]:
    return row.checkpoint, row.block, row.shared


def _order(row: Prefix) -> tuple[str, bool, float]:
    # Equal responses share the most.
    shared = row.shared if row.shared >= 0 else float("inf")
    return row.checkpoint, row.block == "other", shared


def edits(found: MethodTables) -> str:
    """The kernel between a response and an edit of it, by position."""
    rows = []
    for key in dict.fromkeys(
        (e.checkpoint, e.kind, e.position)
        for e in sorted(found.edits, key=lambda e: (e.checkpoint, e.kind, e.position))
    ):
        own = [e for e in found.edits if (e.checkpoint, e.kind, e.position) == key]
        adam, sgd = ([e for e in own if e.metric == m] for m in ("adam", "sgd"))
        rows.append(
            (
                *(key[0], key[1], str(key[2]), str(len(adam))),
                f"{np.mean([-e.log_prob for e in adam]):.1f}",
                ends("+.2f", mean_interval([e.cosine for e in adam])),
                # A median: a few likely responses have hardly any gradient themselves,
                # and an edit of them has a large one.
                ends("+.2f", median_interval([e.ratio for e in adam])),
                ends("+.2f", mean_interval([e.cosine for e in sgd])),
            )
        )
    return table(
        (
            *("checkpoint", "new digit", "position", "prompts"),
            *(
                "its surprisal, nats",
                "cosine, adam",
                "K(t, edit) / K(t, t), adam, median",
            ),
            "cosine, sgd",
        ),
        rows,
    )


def agreements(found: MethodTables) -> str:
    """Kernels of some parameters beside that of all."""
    keys = dict.fromkeys((a.checkpoint, a.kernel) for a in found.agreements)
    rows = []
    for key in keys:
        own = {
            a.quantity: a for a in found.agreements if (a.checkpoint, a.kernel) == key
        }
        first = next(iter(own.values()))
        rows.append((*key, f"{first.parameters:,}", *map(_agreed, own.values())))
    return table(
        (
            *("checkpoint", "kernel of", "parameters"),
            *("correlation of cosines, same prompt", "other prompts"),
            "effective rank, all parameters' = 1",
        ),
        rows,
    )


def _agreed(a: Agreement) -> str:
    return ends(".3f", (a.value, a.low, a.high))


def groups(found: MethodTables) -> str:
    """Parts of groups of parameters in the kernel's trace."""
    names = dict.fromkeys(g.checkpoint for g in found.groups)
    return table(
        ("parameters", "number", *(f"share of the trace, {n}" for n in names)),
        (
            (
                group,
                f"{own[0].parameters:,}",
                *(f"{g.trace:.1%}" for g in own),
            )
            for group in dict.fromkeys(g.group for g in found.groups)
            for own in [[g for g in found.groups if g.group == group]]
        ),
    )


def noise(found: MethodTables) -> str:
    """Variance of the gradient by batch size, predicted and observed."""
    return table(
        (
            *("checkpoint", "gradient", "responses", "variance, predicted"),
            *("observed", "observed / predicted", "of the mean square"),
            "batches clipped",
        ),
        (
            (
                *(n.checkpoint, n.gradient, str(n.responses)),
                _pm(n.predicted, n.predicted_se),
                _pm(n.observed, n.observed_se),
                ends(".2f", _observed_share(n)),
                f"{n.observed / n.square:.0%}",
                f"{n.clipped:.0%}",
            )
            for n in found.noise
        ),
    )


def _observed_share(n: Noise) -> tuple[float, float, float]:
    """Return the observed variance over the predicted one; the samples are disjoint."""
    return ratio_interval(
        n.observed,
        n.observed_se,
        n.predicted,
        n.predicted_se,
        degrees_of_freedom=float(UNITS - 1),
    )


def _pm(value: float, se: float) -> str:
    return f"{value:.3g} ± {se:#.2g}"


def scales(found: MethodTables) -> str:
    """Gradient noise scale from small and from large batches."""
    return table(
        (
            "checkpoint",
            "from",
            "noise scale, prompts",
            "tr Σ of a prompt",
            "square of G",
        ),
        (
            (
                *(s.checkpoint, s.sample),
                ends(".3g", (s.value, s.low, s.high)),
                _pm(s.trace, s.trace_se),
                _pm(s.gradient, s.gradient_se),
            )
            for s in found.scales
        ),
    )


def features(found: MethodTables) -> str:
    """What the most parallel pairs have in common."""
    names = list(dict.fromkeys(f.checkpoint for f in found.features))
    keys = dict.fromkeys((f.among, f.feature) for f in found.features)
    rows = []
    for key in keys:
        own = [f for f in found.features if (f.among, f.feature) == key]
        if not any(f.every for f in own):
            continue
        rows.append((*key, *(cell for f in own for cell in _feature(f))))
    heads = [h for n in names for h in (f"top 1%, {n}", "all")]
    return table(("among", "feature", *heads), rows)


def _feature(f: Feature) -> tuple[str, str]:
    top = _within(0, f.top, f.top_low, f.top_high)
    return ends(".0%", top), f"{f.every:.0%}"


def examples(found: MethodTables) -> str:
    """The most parallel pairs of different prompts, in words."""
    return table(
        ("checkpoint", "cosine, adam", "one response", "the other"),
        (
            (
                *(e.checkpoint, f"{e.cosine:+.3f}"),
                _said(e.prompt, e.response, e.right),
                _said(e.other_prompt, e.other_response, e.other_right),
            )
            for e in found.examples
        ),
    )


def _said(prompt: str, response: str, right: bool) -> str:
    return f"`{prompt}` {response}, {'right' if right else 'wrong'}"


gradient_tables: tuple[Callable[[MethodTables], str], ...] = (
    *(prefixes, edits, agreements, groups, noise, scales, features, examples),
)
