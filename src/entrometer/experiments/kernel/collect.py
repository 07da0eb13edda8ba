"""Result tables of the kernel, from the matrices of its passes; needs no model."""

# Axes: N sequences, E eigenvalues.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from entrometer.estimators import PromptSums, Responses, Tables
from entrometer.estimators import kernel as matrix
from entrometer.estimators.estimate import linearise
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.kernel.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.kernel.products import METRICS
from entrometer.experiments.kernel.requests import Matrices
from entrometer.experiments.requests import read_draws
from entrometer.experiments.result_fields import estimate_fields, update_signal
from entrometer.experiments.update_batch import centred_rewards
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables import kernel as rows
from entrometer.runs.tables.signal import UpdateSignal

ELEMENTS = 500
"""Most elements of the kernel that the results keep per block of pairs."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """The kernel of a checkpoint in one metric."""

    names: dict[str, Any]
    """Columns `checkpoint` and `metric`, which name the kernel in every table."""
    K: Float[np.ndarray, "N N"]
    exact: bool
    """Whether K is the kernel itself, and not a sketch of it."""
    sketches: dict[int, np.ndarray]
    """Sketches by number of buckets; of the first sequences alone if K is exact."""
    matrix_free: Float[np.ndarray, " E"]
    """Largest eigenvalues computed without the matrix; may be empty."""
    rollouts: Rollouts


def collect(
    config: KernelConfig, points: Sequence[CheckpointPlan], store: Path
) -> rows.KernelTables:
    """Return all result tables; the store must hold the result of every pass."""
    tables = rows.KernelTables()
    for point in points:
        stored = point.gram.read(store)
        rollouts = read_draws(point.gram.draws, store)
        for metric in METRICS:
            sketched = {
                # Names of sketches are `METRIC/m`.
                int(name.removeprefix(f"{metric}/")): K
                for name, K in stored.matrices.items()
                if name.startswith(f"{metric}/")
            }
            exact, lanczos = point.gram.exact, point.spectra.get(metric)
            kernel = Kernel(
                names={"checkpoint": point.name, "metric": metric},
                K=stored.matrices[metric] if exact else sketched[max(sketched)],
                exact=exact,
                sketches=sketched,
                matrix_free=np.empty(0) if lanczos is None else lanczos.read(store),
                rollouts=rollouts,
            )
            tables.blocks.extend(blocks(kernel))
            tables.eigenvalues.extend(spectrum(kernel))
            tables.growth.extend(growth(kernel))
            tables.elements.extend(elements(kernel, config.seed))
            tables.sketches.extend(sketches(kernel))
            tables.whole.append(whole(kernel, point.steps, stored))
        for update in point.updates:
            predictions, signal = held_out(point, update, store)
            tables.predictions.extend(predictions)
            tables.signal.append(signal)
    return tables


def blocks(k: Kernel) -> Iterator[rows.Block]:
    """Yield means of the kernel and of its cosines over each block of pairs."""
    for quantity, X in (("kernel", k.K), ("cosine", matrix.cosines(k.K))):
        for block in matrix.BLOCKS:
            result = matrix.block_mean(X, k.rollouts.prompt, block)
            yield rows.Block(
                **k.names,
                block=block,
                quantity=quantity,
                **estimate_fields("mean", result.mean),
                size=result.size,
                pairs=result.pairs,
                responses=k.rollouts.count,
                prompts=result.mean.prompts,
            )


def spectrum(k: Kernel) -> Iterator[rows.Eigenvalue]:
    """Yield all eigenvalues of the matrix, and those computed without it."""
    # A sketch has its own noise, so the law of the exact kernel does not apply to it.
    law = np.full(len(k.K), np.nan)
    if k.exact:
        law = matrix.MarchenkoPastur.fit(k.K).quantiles(len(k.K))
    unknown = np.full(k.matrix_free.size, np.nan)
    for method, values, quantiles in (
        ("dense" if k.exact else "sketch", matrix.eigenvalues(k.K), law),
        ("matrix-free", k.matrix_free, unknown),
    ):
        for i, (value, wishart) in enumerate(zip(values, quantiles, strict=True)):
            yield rows.Eigenvalue(
                **k.names,
                method=method,
                rank=i + 1,
                value=float(value),
                wishart=float(wishart),
            )


def growth(k: Kernel) -> Iterator[rows.Growth]:
    """Yield, per block, the power of the length with which the kernel grows."""
    for block in matrix.BLOCKS:
        power, pairs = matrix.growth_with_length(
            k.K, k.rollouts.length, k.rollouts.prompt, block
        )
        yield rows.Growth(
            **k.names,
            block=block,
            power=power.value,
            power_se=power.standard_error,
            pairs=pairs,
        )


def elements(k: Kernel, seed: int) -> Iterator[rows.Element]:
    """Yield up to `ELEMENTS` random elements of each block of the kernel."""
    # The first number separates this stream from those that draw prompts.
    rng = np.random.default_rng([4, seed])
    # K is symmetric: each pair counts once.
    upper = np.triu(np.ones(k.K.shape, bool))
    length = k.rollouts.length
    for block in matrix.BLOCKS:
        pairs = np.argwhere(matrix.block_mask(k.rollouts.prompt, block) & upper)
        if len(pairs) > ELEMENTS:
            pairs = pairs[np.sort(rng.choice(len(pairs), ELEMENTS, replace=False))]
        for i, j in pairs:
            yield rows.Element(
                **k.names,
                block=block,
                length=float(np.sqrt(float(length[i]) * float(length[j]))),
                value=float(k.K[i, j]),
            )


def sketches(k: Kernel) -> Iterator[rows.SketchError]:
    """Yield each sketch's error, NaN without an exact kernel, and the expected one."""
    for m, sketched in sorted(k.sketches.items()):
        K = k.K[: len(sketched), : len(sketched)]
        error = matrix.sketch_error(K, sketched) if k.exact else np.nan
        expected = matrix.expected_sketch_error(K, m)
        yield rows.SketchError(**k.names, m=m, error=error, expected=expected)


def whole(k: Kernel, step: int, stored: Matrices) -> rows.Whole:
    """Return statistics of the whole kernel: trace, rank, noise scale and others."""
    prompt = k.rollouts.prompt
    # Gradients of Dr-GRPO's loss are rewards, centred per prompt, times score rows:
    # the kernel gives all their products without another pass.
    A = centred_rewards(k.rollouts.reward, prompt)
    noise = matrix.gradient_noise(matrix.prompt_products(k.K, A, prompt))
    return rows.Whole(
        **k.names,
        step=step,
        responses=prompt.size,
        prompts=np.unique(prompt).size,
        parameters=stored.parameters,
        trace=float(np.trace(k.K)),
        effective_rank=matrix.effective_rank(k.K),
        off_diagonal=matrix.off_diagonal_share(k.K),
        noise_scale=noise.value,
        noise_scale_low=noise.low,
        noise_scale_high=noise.high,
        seconds=stored.seconds,
    )


def held_out(
    point: CheckpointPlan, update: UpdatePlan, store: Path
) -> tuple[list[rows.Prediction], UpdateSignal]:
    r"""Return predicted and measured changes of held-out log-probs, and the signal.

    $\delta S = \eta\big(\kappa\sum_u K_{tu} + \nabla S\cdot v_\text{history}
    + \nabla S\cdot v_\text{decay}\big)$ against $S(\theta + \eta v) - S(\theta)$.
    """
    eta = point.eta
    rollouts = read_draws([h.rollouts for h in point.here], store)
    responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
    here = read_table(Tables, [h.path(store) for h in point.here])
    there = read_table(Tables, [h.path(store) for h in update.there])
    shards = [read_columns(request.path(store)) for request in update.carried]
    history = np.concatenate([shard["history"] for shard in shards])
    decay = np.concatenate([shard["decay"] for shard in shards])
    own = eta * update.cross.read(store).sum(axis=1)
    predicted = own + eta * responses.total(history + decay)
    # Differences of single tokens first: sums of log-probs would cancel.
    observed = responses.total(there.S - here.S)
    predictions = [
        rows.Prediction(
            checkpoint=point.name,
            update=update.name,
            eta=eta,
            response=i,
            length=int(responses.length[i]),
            predicted=float(predicted[i]),
            own=float(own[i]),
            observed=float(observed[i]),
        )
        for i in range(responses.count)
    ]
    sums = PromptSums.of(
        rollouts.prompt,
        responses=np.ones(responses.count),
        history=eta * responses.total(history),
    )
    n = sums.total("responses")
    mean = sums.total("history") / n
    momentum = linearise(sums, mean, {"history": 1 / n, "responses": -mean / n})
    return predictions, update_signal(
        update.step.read_batch(store).groups_with_signal,
        momentum.estimate(),
        checkpoint=point.name,
        update=update.name,
        eta=eta,
        quantity="log-prob",
        predicted=float(np.mean([row.predicted for row in predictions])),
    )
