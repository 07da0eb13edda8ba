"""The gradient of an update, once more: from its recorded rows and its checkpoint."""

# Axes: B responses, T tokens of a response.

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.experiments.update_batch import recorded_rollouts
from entrometer.interventions import Intervention, TokenTables
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import UpdateBatch, read_update, update_path


def recorded_tables(batch: UpdateBatch, *, seed: int, progress: float) -> TokenTables:
    def table(rows):
        return pad_sequence([torch.tensor(x).double() for x in rows], True)

    return TokenTables(
        S=table(batch.S),
        H=table(batch.H),
        S_old=table(batch.S_old),
        A=table(batch.advantage),
        mask=table(batch.counted).bool(),
        group=torch.tensor(batch.group),
        length_limit=batch.settings.max_tokens,
        S_engine=None if batch.S_engine is None else table(batch.S_engine),
        S_ref=None if batch.S_ref is None else table(batch.S_ref),
        seed=seed,
        progress=progress,
    )


def recorded_gradient(
    run: Path, step: int, chosen: Intervention, *, steps: int
) -> dict[str, Tensor]:
    """Of the loss of the whole batch, in the order of its rows."""
    batch = read_update(update_path(run, step))
    pull = chosen.coefficients(
        recorded_tables(batch, seed=step, progress=(step - 1) / steps)
    )
    alpha, gamma = (
        np.concatenate(
            [x[: len(S)] for x, S in zip(table.numpy(), batch.S, strict=True)]
        )
        for table in pull
    )
    policy = load_checkpoint(run / f"checkpoint-{step - 1}").policy
    weights = GradientWeights(S=alpha, H=gamma)
    ascent = passes.vjp(policy, recorded_rollouts(batch), weights).gradient
    return {name: -g for name, g in ascent.items()}


def trained_gradient(run: Path, step: int) -> dict[str, Tensor]:
    r"""What AdamW was given: $g = (m' - \beta_1 m)/(1 - \beta_1)$."""
    before, after = (load_checkpoint(run / f"checkpoint-{n}") for n in (step - 1, step))
    beta = after.hyperparameters.betas[0]
    old = before.state.first_moment
    return {
        name: (m - beta * old[name]) / (1 - beta)
        for name, m in after.state.first_moment.items()
    }


def distance(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Norm of the difference over the norm."""
    assert found.keys() == expected.keys()
    difference, whole = (
        torch.cat([x.flatten().double() for x in vector])
        for vector in (
            [found[name] - expected[name] for name in expected],
            list(expected.values()),
        )
    )
    return float(difference.norm() / whole.norm())
