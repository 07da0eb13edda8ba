"""Summary of a measurement of the kernel: title, sentences and warnings."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.result_fields import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.kernel import Block, KernelTables, Prediction, Whole
from entrometer.text import precision_text

_FAR = 0.1
"""Relative error of predictions above which the summary warns."""


def summarize(config: KernelConfig, tables: KernelTables) -> dict[str, Any]:
    """Return title, sentences and warnings of a measurement."""
    return {
        "title": "The Fisher kernel between responses",
        "sentences": [
            *without_signal(tables.signal),
            _measured(config, tables),
            *(_adam(tables, w) for w in tables.whole if w.metric == "adam"),
            _predicted(tables.predictions),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *(text for w in tables.whole for text in _kernel_warnings(tables, w)),
            *_prediction_warnings(tables.predictions),
        ],
    }


def _measured(config: KernelConfig, tables: KernelTables) -> str:
    names = list(dict.fromkeys(w.checkpoint for w in tables.whole))
    how = "exact" if config.exact else f"sketched to {max(config.sketches)} numbers"
    return (
        "Change of one response's log-prob by a gradient step on another, at "
        f"{len(names)} checkpoint{'s' * (len(names) != 1)} ({', '.join(names)}) on "
        f"{config.task}: the kernel of {config.sequences} responses to "
        f"{config.kernel_prompts} prompts, {how}, in "
        f"{precision_text(config.precision)}, with and without Adam's preconditioner."
    )


def _adam(tables: KernelTables, w: Whole) -> str:
    same, other = (
        next(
            _interval(b)
            for b in tables.blocks
            if _labels(b) == _labels(w) and (b.quantity, b.block) == ("cosine", block)
        )
        for block in ("prompt", "other")
    )
    # A gradient that is not distinguishable from noise has no finite noise scale.
    noise = (
        f"The gradient's noise equals its signal at a batch of {w.noise_scale:.3g} "
        f"prompts [{w.noise_scale_low:.2g}, {w.noise_scale_high:.2g}]."
        if np.isfinite(w.noise_scale)
        else "The gradient of these prompts cannot be distinguished from noise, or "
        "their rewards are not known, so the noise scale is undefined."
    )
    return (
        f"{w.checkpoint}, with Adam's preconditioner: the mean cosine between the "
        f"gradients of two responses is {same} for the same prompt and {other} for "
        f"different prompts; the kernel of {w.responses} responses has an effective "
        f"rank of {w.effective_rank:.3g} and {w.off_diagonal:.0%} of its squared "
        f"elements off the diagonal. {noise}"
    )


def _predicted(rows: Sequence[Prediction]) -> str:
    error, share = relative_error(rows), relative_error(rows, own=True)
    if not np.isfinite(error):
        return (
            f"The changes of {len(rows)} held-out log-probs have no relative error: "
            "the step changes none of them, or some are not finite."
        )
    return (
        f"The changes of {len(rows)} held-out log-probs are predicted with a relative "
        f"root-mean-square error of {error:.2%} from the whole step, and of "
        f"{share:.0%} from its batch alone, through the kernel; momentum and weight "
        "decay account for the difference."
    )


def relative_error(rows: Sequence[Prediction], *, own: bool = False) -> float:
    """Return the root mean square of errors over that of changes; NaN if those are 0.

    With `own`, errors are those of the prediction from the batch alone.
    """
    observed = np.array([r.observed for r in rows])
    predicted = np.array([r.own if own else r.predicted for r in rows])
    # A step that changes nothing has no relative error.
    if not observed.any():
        return float("nan")
    return float(np.sqrt(((predicted - observed) ** 2).sum() / (observed**2).sum()))


def _kernel_warnings(tables: KernelTables, w: Whole) -> Iterator[str]:
    name = f"{w.checkpoint}, {w.metric}"
    dense = [
        e
        for e in tables.eigenvalues
        if _labels(e) == _labels(w) and e.method == "dense"
    ]
    value, law = np.array([(e.value, e.wishart) for e in dense]).reshape(-1, 2).T
    # Both are in descending order. The law assumes independent features, so a largest
    # eigenvalue far above it shows directions that the responses share.
    if dense and value[0] > 2 * law[0]:
        yield (
            f"{name}: the Marchenko-Pastur law of the same trace and spread does not "
            f"describe the spectrum: the largest eigenvalue is {value[0] / law[0]:.3g} "
            f"times the law's, and {int((value > law[0]).sum())} of {len(dense)} "
            "eigenvalues are above the law's largest."
        )
    if not np.isfinite(w.noise_scale_high):
        yield f"{name}: the noise scale has no upper bound; use more --kernel-prompts."
    # NaN, the error without an exact kernel, is not greater than anything.
    off = [
        s
        for s in tables.sketches
        if _labels(s) == _labels(w) and 2 * s.expected < s.error < np.inf
    ]
    if off:
        yield (
            f"{name}: the error of the sketch with {off[0].m} buckets is "
            f"{off[0].error:.2g}, more than twice the expected {off[0].expected:.2g}: "
            "too many large elements share a bucket."
        )


def _prediction_warnings(predictions: Sequence[Prediction]) -> Iterator[str]:
    for name in dict.fromkeys((p.checkpoint, p.update) for p in predictions):
        rows = [p for p in predictions if (p.checkpoint, p.update) == name]
        where = f"{', '.join(name)}: at the learning rate"
        error = relative_error(rows)
        if not all(np.isfinite(row.observed) for row in rows):
            yield (
                f"{where} {rows[0].eta:.3g} log-probs after the step are not finite; "
                "use a smaller --eta."
            )
        if error > _FAR:
            yield (
                f"{where} {rows[0].eta:.2g} the prediction differs from the change by "
                f"{error:.0%}; it is of first order, so use a smaller --eta to test it."
            )


def _labels(row: Any) -> tuple[str, str]:
    return row.checkpoint, row.metric


def _interval(b: Block) -> str:
    return f"{b.mean:.3g} [{b.mean_low:.2g}, {b.mean_high:.2g}]"
