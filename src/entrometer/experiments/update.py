"""The step that AdamW makes of an update batch, and the files that store it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer import passes
from entrometer.calculus import (
    AdamWFactors,
    AdamWState,
    AdamWTensors,
    Vector,
    adamw_tensor,
    inner_products,
    zeros_like,
)
from entrometer.calculus.sharded import Placement, rows_of, sum_over
from entrometer.calculus.vectors import LazyVector
from entrometer.engine.vectors import open_vectors, write_vectors
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint, Policy
from entrometer.policy.policy import padding_row
from entrometer.policy.sharding import placement


class StepVectors(NamedTuple):
    r"""Direction $v$, diagonal preconditioner $P$ and $\kappa$ of a stored step."""

    direction: dict[str, Tensor]
    preconditioner: dict[str, Tensor]
    kappa: float


def ascent_of(policy: Policy, batch: Batch) -> dict[str, Tensor]:
    r"""Return a batch's $-\nabla L = \sum_k\alpha_k\nabla S_k + \gamma_k\nabla H_k$."""
    # Groups whose responses are all right or all wrong often are most of a batch.
    rows = np.flatnonzero(batch.weighed_rows)
    if not rows.size:
        return zeros_like(policy.trained())
    batch = batch.at(rows)
    with padding_row(policy, batch.padding_row):
        return passes.vjp(policy, batch.rollouts, batch.weights).gradient


def adjoint(gradient: Vector, step: StepVectors) -> dict[str, Tensor]:
    r"""Return $u = \kappa P g$, along which $\alpha_k\nabla_u S_k$ is the influence.

    P is diagonal, so $g\cdot\kappa P\nabla S_k = \nabla_u S_k$: one forward-mode pass
    replaces a gradient per token.
    """
    P = step.preconditioner
    # Cast to the gradient, because rows of gradients may have another type than P.
    return {
        name: step.kappa * P[name].to(device=g.device, dtype=g.dtype) * g
        for name, g in gradient.items()
    }


def adjoint_rows(gradients: Vector, step: StepVectors) -> dict[str, Tensor]:
    r"""Return $\kappa P g_i$ for rows of gradients, of those that this process has."""
    P = {name: rows_of(x) for name, x in step.preconditioner.items()}
    return adjoint(gradients, step._replace(preconditioner=P))


def zero_rows(policy: Policy, count: int) -> dict[str, Tensor]:
    """Return rows of gradients that are 0, of those that this process has."""
    return {
        name: rows_of(p).new_zeros(count, *rows_of(p).shape)
        for name, p in policy.trained().items()
    }


def row_products(policy: Policy, left: Vector, right: Vector) -> Tensor:
    r"""Return $g_i\cdot u_j$ for rows of gradients, summed over a group's processes."""
    return sum_over(policy.mesh, inner_products(left, right))


def momentum_and_decay(
    checkpoint: Checkpoint, step: StepVectors
) -> dict[str, dict[str, Tensor]]:
    r"""Return `history` and `decay`: the parts of a step that its batch does not cause.

    $v_\text{history} = -\frac{\beta_1}{1-\beta_1^n}Pm_-$ and
    $v_\text{decay} = -\lambda\theta$; the rest of $v$ is the batch's part.
    """
    hyper, trained = checkpoint.hyperparameters, checkpoint.policy.trained()
    return {
        "history": momentum(checkpoint, step.preconditioner),
        "decay": {n: -hyper.weight_decay[n] * p for n, p in trained.items()},
    }


def momentum(checkpoint: Checkpoint, preconditioner: Vector) -> dict[str, Tensor]:
    r"""Return $v_\text{history} = -\frac{\beta_1}{1-\beta_1^n}Pm_-$ of a step."""
    state, beta1 = checkpoint.state, checkpoint.hyperparameters.betas[0]
    # AdamW corrects the bias of its average after this step, hence step + 1.
    faded = -beta1 / (1 - beta1 ** (state.step + 1))
    P, moments = preconditioner, state.first_moment
    return {n: faded * P[n] * m.to(P[n]) for n, m in moments.items()}


def write_step(
    path: Path, checkpoint: Checkpoint, ascent: Vector, *, max_grad_norm: float
) -> None:
    """Write AdamW's step to a file: direction, preconditioner and kappa.

    Momentum's part follows from the preconditioner and the checkpoint's moments
    (`momentum`), so it takes no room in the store.
    """
    factors, tensors = _step_by_tensor(checkpoint, ascent, max_grad_norm)

    def named() -> Iterator[tuple[str, Tensor]]:
        for name, made in tensors:
            for part in ("direction", "preconditioner"):
                yield f"{part}/{name}", getattr(made, part)

    # repr of a float is exact: the shortest text that reads back to the same bits.
    write_vectors(path, named(), about={"kappa": repr(factors.kappa)})


def _step_by_tensor(
    checkpoint: Checkpoint, ascent: Vector, max_grad_norm: float
) -> tuple[AdamWFactors, Iterator[tuple[str, AdamWTensors]]]:
    """Return a step's shared numbers, and its tensors by parameter, one at a time.

    The six vectors of a step and its moments are never in memory as a whole.
    """
    hyper, state = checkpoint.hyperparameters, checkpoint.state
    factors = AdamWFactors.of(state.step, hyper, ascent, max_norm=max_grad_norm or None)
    tensors = (
        (
            name,
            adamw_tensor(
                p,
                # The ascent is minus the gradient of the loss, which AdamW expects.
                -ascent[name],
                state.first_moment[name],
                state.second_moment[name],
                factors,
                weight_decay=hyper.weight_decay[name],
            ),
        )
        for name, p in checkpoint.policy.trained().items()
    )
    return factors, tensors


def read_step(path: Path, where: Placement) -> StepVectors:
    """Return a stored step's direction, preconditioner and kappa, on a device.

    Or by rows, for a group of processes.
    """
    with open_vectors(path, "a step", where) as file:
        direction, P = file.part("direction"), file.part("preconditioner")
        return StepVectors(direction, P, float(file.about["kappa"]))


def read_step_part(path: Path, part: str, where: Placement) -> dict[str, Tensor]:
    """Return one vector of a step: `direction` or `preconditioner`."""
    with open_vectors(path, "a step", where) as file:
        return file.part(part)


class _AfterStep(NamedTuple):
    """A parameter and its moments as a file has them, under the fields' names."""

    parameter: Tensor
    first: Tensor
    second: Tensor


def _after_step(
    checkpoint: Checkpoint, ascent: Vector, max_grad_norm: float, eta: float
) -> tuple[int, Iterator[tuple[str, _AfterStep]]]:
    r"""Return AdamW's number of the step, and $\theta + \eta v$ and moments by name."""
    trained = checkpoint.policy.trained()
    factors, tensors = _step_by_tensor(checkpoint, ascent, max_grad_norm)

    def after() -> Iterator[tuple[str, _AfterStep]]:
        for name, made in tensors:
            p = trained[name]
            # Added in the type of the parameter, as the training's optimizer does.
            moved = p + eta * made.direction.to(p)
            yield name, _AfterStep(moved, made.first_moment, made.second_moment)

    return factors.number, after()


def take_step(
    checkpoint: Checkpoint, ascent: Vector, *, max_grad_norm: float
) -> Checkpoint:
    r"""Return the checkpoint after AdamW's step; its policy is changed in place."""
    trained, eta = checkpoint.policy.trained(), checkpoint.learning_rate
    number, tensors = _after_step(checkpoint, ascent, max_grad_norm, eta)
    first: dict[str, Tensor] = {}
    second: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, after in tensors:
            trained[name].copy_(after.parameter)
            first[name], second[name] = after.first, after.second
    state = AdamWState(number, first, second)
    return replace(checkpoint, state=state, step=checkpoint.step + 1)


def write_advanced(
    path: Path,
    checkpoint: Checkpoint,
    ascent: Vector,
    *,
    max_grad_norm: float,
    eta: float,
) -> None:
    r"""Write $\theta + \eta v$ and AdamW's moments after its step to a file."""
    number, tensors = _after_step(checkpoint, ascent, max_grad_norm, eta)
    _write_after(path, tensors, checkpoint.step + 1, number)


def write_checkpoint(
    path: Path, checkpoint: Checkpoint, *, about: Mapping[str, str]
) -> None:
    """Write parameters and AdamW's moments to a file that `read_advanced` reads."""
    state = checkpoint.state
    tensors = (
        (name, _AfterStep(p, state.first_moment[name], state.second_moment[name]))
        for name, p in checkpoint.policy.trained().items()
    )
    _write_after(path, tensors, checkpoint.step, state.step, about)


def _write_after(
    path: Path,
    tensors: Iterator[tuple[str, _AfterStep]],
    steps: int,
    optimizer: int,
    about: Mapping[str, str] = MappingProxyType({}),
) -> None:
    named = (
        (f"{part}/{name}", tensor)
        for name, after in tensors
        for part, tensor in after._asdict().items()
    )
    numbers = {"steps": str(steps), "optimizer": str(optimizer)}
    write_vectors(path, named, about={**about, **numbers})


def read_advanced(path: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint after a stored step; its policy is changed in place."""
    trained, kind = checkpoint.policy.trained(), "a policy after a step"
    at = checkpoint.policy.mesh or "cpu"
    with open_vectors(path, kind, at) as file, torch.no_grad():
        steps, taken = int(file.about["steps"]), int(file.about["optimizer"])
        for name, p in trained.items():
            # In place: the model refers to these tensors.
            p.copy_(file[f"parameter/{name}"])

    # Moments are twice the parameters' size, so each tensor is read when it is used.
    def moment(part: str) -> LazyVector:
        def load(name: str) -> Tensor:
            p = trained[name]
            with open_vectors(path, kind, placement(checkpoint.policy)) as file:
                return file[f"{part}/{name}"].to(device=p.device, dtype=p.dtype)

        return LazyVector(trained, load)

    state = AdamWState(taken, moment("first"), moment("second"))
    return replace(checkpoint, state=state, step=steps)
