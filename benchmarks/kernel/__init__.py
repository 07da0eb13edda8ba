"""The same Gram matrix by entrometer, vmap, dattri-llm and bergson: time and memory."""

# The whole comparison is one command on a quiet machine,
#     ENTROMETER_RIVALS=DIR python -m benchmarks kernel --json
# where DIR/dattri and DIR/bergson are virtual environments with the rivals in them
# (docs/kernel.md says how they are made); without it the two are left out, and said so.
# ENTROMETER_KERNEL_PROMPTS=1 is a trial of a minute.

import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.harness import Check, Report, worst
from benchmarks.kernel.inputs import PROMPTS, RESPONSES, write_inputs
from benchmarks.kernel.single import batched_against_single
from benchmarks.kernel.sketched import sketch_errors
from benchmarks.kernel.trial import Trial, run_trial

ROUNDS = 2
METHODS = ("entrometer", "vmap", "dattri", "bergson")


def run() -> Report:
    prompts = int(os.environ.get("ENTROMETER_KERNEL_PROMPTS", PROMPTS))
    with TemporaryDirectory() as folder:
        inputs = write_inputs(Path(folder), prompts)
        trials: dict[str, list[Trial]] = {method: [] for method in METHODS}
        # Alternating, so that a slower hour of the machine is everyone's.
        for _ in range(ROUNDS):
            for method in METHODS:
                trials[method].append(run_trial(method, inputs))
        exact = trials["entrometer"][0].K
        assert exact is not None, trials["entrometer"][0].error
        sketches = sketch_errors(inputs, exact)
        apart = batched_against_single(inputs)
    ours = _seconds(trials["entrometer"])
    rivals = {m: _seconds(trials[m]) for m in METHODS[1:] if trials[m][0].K is not None}
    eigenvalues = np.linalg.eigvalsh(exact)
    checks = [
        Check("kernel.batched_against_single_float64", apart, at_most=1e-10),
        Check(
            "kernel.smallest_eigenvalue_over_largest",
            float(eigenvalues[0] / eigenvalues[-1]),
            at_least=-1e-12,
        ),
        Check("kernel.ours_over_fastest", ours / min(rivals.values()), at_most=1),
        Check(
            "kernel.sketch_error_over_expected",
            worst([s["error"] / s["expected"] for s in sketches]),
            at_most=1.25,
        ),
    ]
    checks += [
        Check(f"kernel.{m}_apart", _apart(trials[m][0].K, exact), at_most=1e-3)
        for m in rivals
    ]
    figures: dict[str, Any] = {
        "sequences": len(exact),
        "responses_to_a_prompt": RESPONSES,
        "rounds": ROUNDS,
        "methods": {m: _figures(trials[m], ours) for m in METHODS},
        "sketches": sketches,
    }
    return Report(checks, figures)


def _seconds(trials: list[Trial]) -> float:
    return median(t.seconds for t in trials)


def _apart(K: np.ndarray | None, exact: np.ndarray) -> float:
    """Largest difference of an element over the two norms."""
    assert K is not None
    size = np.sqrt(exact.diagonal())
    return float(np.abs((K - exact) / np.outer(size, size)).max())


def _figures(trials: list[Trial], ours: float) -> dict[str, Any]:
    if trials[0].K is None:
        return {"error": trials[0].error}
    return {
        "seconds": [round(t.seconds, 2) for t in trials],
        "processor_seconds": [round(t.work, 2) for t in trials],
        "over_ours": round(_seconds(trials) / ours, 3),
        "peak_gb": round(max(t.peak for t in trials) / 1e9, 2),
        "version": trials[0].version,
    }
