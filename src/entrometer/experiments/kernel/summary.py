"""What was found, in words, and what a careful colleague would warn of."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.update_signal import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.kernel import Block, KernelTables, Prediction, Whole

_FAR = 0.1
"""Error of a prediction, relative to the change, from which it is warned of."""


def summarize(config: KernelConfig, found: KernelTables) -> dict[str, Any]:
    """Title, sentences and warnings of a measurement, as plain text."""
    return {
        "title": "The Fisher kernel between responses",
        "sentences": [
            *without_signal(found.signal),
            _what(config, found),
            *(_metric(found, w) for w in found.whole if w.metric == "adam"),
            _predicted(found.predictions),
            *signal_sentences(found.signal),
        ],
        "warnings": [*signal_warnings(found.signal), *_warnings(found)],
    }


def _what(config: KernelConfig, found: KernelTables) -> str:
    names = list(dict.fromkeys(w.checkpoint for w in found.whole))
    many = "s" if len(names) != 1 else ""
    how = "exact" if config.exact else f"sketched to {max(config.sketches)} numbers"
    return (
        f"What a step made from one response does to the log-prob of another, at "
        f"{len(names)} checkpoint{many} ({', '.join(names)}) on {config.task}: the "
        f"kernel of {config.sequences} responses to {config.kernel_prompts} prompts, "
        f"{how}, in {config.precision}, with and without Adam's preconditioner."
    )


def _metric(found: KernelTables, w: Whole) -> str:
    cosine = {
        b.block: b for b in found.blocks if _same(b, w) and b.quantity == "cosine"
    }
    return (
        f"{w.checkpoint}, Adam's metric: gradients of two responses to one prompt have "
        f"a cosine of {_range(cosine['prompt'])}, to different prompts of "
        f"{_range(cosine['other'])}; {w.effective_rank:.3g} equal directions would "
        f"spread like the {w.responses} responses, and {w.off_diagonal:.0%} of the "
        "squared kernel is off its diagonal. " + _noise(w)
    )


def _noise(w: Whole) -> str:
    if not np.isfinite(w.noise_scale):
        return (
            "The gradient of these prompts is not told from noise, so they give no "
            "noise scale."
        )
    return (
        f"Noise and signal of the gradient are equal at {w.noise_scale:.3g} prompts "
        f"[{w.noise_scale_low:.2g}, {w.noise_scale_high:.2g}]."
    )


def _predicted(rows: list[Prediction]) -> str:
    error, share = relative_error(rows), relative_error(rows, own=True)
    if not np.isfinite(error):
        return (
            f"The changes of {len(rows)} log-probs of held-out responses have no "
            "relative error: the step changes none of them, or some are not finite."
        )
    return (
        f"The changes of {len(rows)} log-probs of held-out responses are predicted by "
        f"the step with an error of {error:.2%} of their size (root mean square), and "
        f"by its batch alone, through the kernel, with {share:.0%}: what is between is "
        "momentum and decay."
    )


def relative_error(rows: list[Prediction], *, own: bool = False) -> float:
    """Root mean square of the error over that of the changes; NaN if these are 0."""
    observed = np.array([r.observed for r in rows])
    predicted = np.array([r.own if own else r.predicted for r in rows])
    if not observed.any():
        return float("nan")
    return float(np.sqrt(((predicted - observed) ** 2).sum() / (observed**2).sum()))


def _warnings(found: KernelTables) -> Iterator[str]:
    for w in found.whole:
        yield from _wishart(found, w)
        if not np.isfinite(w.noise_scale_high):
            yield (
                f"{w.checkpoint}, {w.metric}: the interval of the noise scale has no "
                "upper end; take more prompts."
            )
        worst = [
            s
            for s in found.sketches
            if _same(s, w) and np.isfinite(s.error) and s.error > 2 * s.expected
        ]
        if worst:
            yield (
                f"{w.checkpoint}, {w.metric}: the sketch of {worst[0].m} buckets is "
                f"off by {worst[0].error:.2g}, theory says {worst[0].expected:.2g}: "
                "its buckets happen to suit these few directions badly."
            )
    for name, update in dict.fromkeys(
        (p.checkpoint, p.update) for p in found.predictions
    ):
        rows = [
            p for p in found.predictions if (p.checkpoint, p.update) == (name, update)
        ]
        error = relative_error(rows)
        if not all(np.isfinite(row.observed) for row in rows):
            yield (
                f"{name}, {update}: at the learning rate {rows[0].eta:.3g} log-probs "
                "after the step are not finite; give a smaller --eta."
            )
        if error > _FAR:
            yield (
                f"{name}, {update}: at the learning rate {rows[0].eta:.2g} the "
                f"kernel's prediction is off by {error:.0%} of the change; it is of "
                "first order, so take a smaller one to see it hold."
            )


def _wishart(found: KernelTables, w: Whole) -> Iterator[str]:
    """How far the crude model is off, where it is far off."""
    dense = [e for e in found.eigenvalues if _same(e, w) and e.method == "dense"]
    if not dense:
        return
    value = np.array([e.value for e in dense])
    law = np.array([e.wishart for e in dense])
    above = int((value > law[0]).sum())
    if value[0] > 2 * law[0]:
        yield (
            f"{w.checkpoint}, {w.metric}: the Marchenko-Pastur law of the same trace "
            f"and spread is a crude model here: the largest eigenvalue is "
            f"{value[0] / law[0]:.3g} times the law's, {above} of {len(dense)} lie "
            "above all of it, and the others are smaller than it says."
        )


def _same(row: Any, w: Whole) -> bool:
    return bool((row.checkpoint, row.metric) == (w.checkpoint, w.metric))


def _range(b: Block) -> str:
    return f"{b.mean:.3g} [{b.mean_low:.2g}, {b.mean_high:.2g}]"
