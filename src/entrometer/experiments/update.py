"""From an update batch to the step that AdamW makes of it, and its files."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from entrometer import passes
from entrometer.calculus import (
    AdamWState,
    AdamWStep,
    Update,
    Vector,
    adamw_update,
    scale,
)
from entrometer.calculus.vectors import LazyVector
from entrometer.engine.vectors import Device, open_vectors, parts, write_vectors
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint, Policy


class StepVectors(NamedTuple):
    """A step as it is kept."""

    direction: dict[str, Tensor]
    preconditioner: dict[str, Tensor]
    kappa: float


def ascent_of(policy: Policy, batch: Batch) -> dict[str, Tensor]:
    r"""$-g = \sum_k\alpha_k\nabla S_k + \gamma_k\nabla H_k$ of a batch."""
    return passes.vjp(policy, batch.rollouts, batch.weights).gradient


def make_step(
    checkpoint: Checkpoint, ascent: Vector, *, max_grad_norm: float
) -> AdamWStep:
    """The step that AdamW makes of a batch's ascent."""
    return adamw_update(
        checkpoint.policy.trained(),
        scale(ascent, -1.0),
        checkpoint.state,
        checkpoint.hyperparameters,
        max_norm=max_grad_norm or None,
    )


def adjoint(gradient: Vector, step: StepVectors) -> dict[str, Tensor]:
    r"""Direction $u = \kappa P g$ along which a token's score is its influence."""
    P = step.preconditioner
    return {name: step.kappa * P[name].to(g) * g for name, g in gradient.items()}


def momentum_and_decay(
    checkpoint: Checkpoint, step: StepVectors
) -> dict[str, dict[str, Tensor]]:
    r"""What the step takes from before the batch.

    $v_\text{history} = -\frac{\beta_1}{1-\beta_1^n}Pm_-$ and
    $v_\text{decay} = -\lambda\theta$: with the batch's own part they add up to $v$.
    """
    hyper, state = checkpoint.hyperparameters, checkpoint.state
    beta1 = hyper.betas[0]
    faded = -beta1 / (1 - beta1 ** (state.step + 1))
    P, trained = step.preconditioner, checkpoint.policy.trained()
    return {
        "history": {
            n: faded * P[n] * m.to(P[n]) for n, m in state.first_moment.items()
        },
        "decay": {n: -hyper.weight_decay[n] * p for n, p in trained.items()},
    }


def write_step(path: Path, update: Update) -> None:
    """Keep what the passes along a step need."""
    vectors = parts(
        direction=update.direction,
        history=update.history,
        preconditioner=update.preconditioner,
    )
    write_vectors(path, vectors, about={"kappa": repr(update.kappa)})


def read_step(path: Path, device: Device) -> StepVectors:
    """Read what `write_step` wrote onto a device."""
    with open_vectors(path, "a step", device) as file:
        return StepVectors(
            file.part("direction"),
            file.part("preconditioner"),
            float(file.about["kappa"]),
        )


def read_step_part(path: Path, part: str, device: Device) -> dict[str, Tensor]:
    """Return one part of a step: `direction`, `history` or `preconditioner`."""
    with open_vectors(path, "a step", device) as file:
        return file.part(part)


def write_advanced(
    path: Path, checkpoint: Checkpoint, made: AdamWStep, eta: float
) -> None:
    r"""Keep $\theta + \eta v$ and the moments after the step."""
    v = made.update.direction
    moved = {n: p + eta * v[n].to(p) for n, p in checkpoint.policy.trained().items()}
    vectors = parts(
        parameter=moved,
        first=made.state.first_moment,
        second=made.state.second_moment,
    )
    about = {"steps": str(checkpoint.step + 1), "optimizer": str(made.state.step)}
    write_vectors(path, vectors, about=about)


def read_advanced(path: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Move a checkpoint, in place, to what `write_advanced` kept.

    Its moments stay in the file until they are asked for.
    """
    trained, kind = checkpoint.policy.trained(), "a policy after a step"
    with open_vectors(path, kind, "cpu") as file, torch.no_grad():
        steps, taken = int(file.about["steps"]), int(file.about["optimizer"])
        for name, p in trained.items():
            p.copy_(file[f"parameter/{name}"])

    def moment(part: str) -> LazyVector:
        def load(name: str) -> Tensor:
            with open_vectors(path, kind, trained[name].device) as file:
                return file[f"{part}/{name}"].to(trained[name])

        return LazyVector(trained, load)

    state = AdamWState(taken, moment("first"), moment("second"))
    return replace(checkpoint, state=state, step=steps)
