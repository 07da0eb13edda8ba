"""From the matrices and tables of passes to rows; no model in hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.kernel.plan import CheckpointPlan
from entrometer.experiments.kernel.predictions import predictions, signal
from entrometer.experiments.kernel.products import METRICS
from entrometer.experiments.kernel.tables import (
    Kernel,
    blocks,
    elements,
    growth,
    sketches,
    spectrum,
    whole,
)
from entrometer.experiments.requests import read_draws
from entrometer.runs.tables.kernel import KernelTables


def collect(
    config: KernelConfig, points: Sequence[CheckpointPlan], store: Path
) -> KernelTables:
    """All rows, from a store that has every pass of the plan."""
    found = KernelTables()
    for point in points:
        for kernel in kernels(point, store):
            found.blocks.extend(blocks(kernel))
            found.eigenvalues.extend(spectrum(kernel))
            found.growth.extend(growth(kernel))
            found.elements.extend(elements(kernel, config.seed))
            found.sketches.extend(sketches(kernel))
            found.whole.append(whole(kernel))
        for update in point.updates:
            rows = list(predictions(point, update, store))
            found.predictions.extend(rows)
            found.signal.append(signal(point, update, rows, store))
    return found


def kernels(point: CheckpointPlan, store: Path) -> Iterator[Kernel]:
    """The kernel of a checkpoint in each metric."""
    gram = point.gram
    found = gram.read(store)
    rollouts = read_draws(gram.draws, store)
    for metric in METRICS:
        sketched = {
            m: found.matrices[f"{metric}/{m}"]
            for m in gram.sketches
            if f"{metric}/{m}" in found.matrices
        }
        free = point.spectra.get(metric)
        yield Kernel(
            checkpoint=point.name,
            metric=metric,
            step=point.steps,
            K=found.matrices[metric] if gram.exact else sketched[max(sketched)],
            exact=gram.exact,
            sketches=sketched,
            matrix_free=np.empty(0) if free is None else free.read(store),
            prompt=np.asarray(rollouts.prompt),
            length=np.asarray(rollouts.length),
            reward=np.asarray(rollouts.reward),
            parameters=found.parameters,
            seconds=found.seconds,
        )
