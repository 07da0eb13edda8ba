"""From an update batch to the step that AdamW makes of it."""

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from entrometer import passes
from entrometer.calculus import AdamWStep, Update, Vector, adamw_update, scale
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint
from entrometer.runs import DamagedFile, atomic_write


class StepVectors(NamedTuple):
    """A step as it is kept."""

    direction: dict[str, Tensor]
    preconditioner: dict[str, Tensor]
    kappa: float


def make_step(
    checkpoint: Checkpoint, batch: Batch, *, max_grad_norm: float
) -> AdamWStep:
    r"""AdamW with $-g = \sum_k\alpha_k\nabla S_k + \gamma_k\nabla H_k$."""
    ascent = passes.vjp(checkpoint.policy, batch.rollouts, batch.weights).gradient
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


def carried_parts(
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
    vectors = {
        f"{part}/{name}": x.contiguous()
        for part, vector in (
            ("direction", update.direction),
            ("preconditioner", update.preconditioner),
        )
        for name, x in vector.items()
    }
    with atomic_write(path) as file:
        file.write(save(vectors, metadata={"kappa": repr(update.kappa)}))


def read_step(path: Path) -> StepVectors:
    """Read what `write_step` wrote."""
    parts: dict[str, dict[str, Tensor]] = {"direction": {}, "preconditioner": {}}
    try:
        with safe_open(path, "pt") as file:
            kappa = float(file.metadata()["kappa"])
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                part, _, name = key.partition("/")
                parts[part][name] = file.get_tensor(key)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected a step in {path}, got a file that is damaged or of something "
            f"else ({error}); delete it and go on"
        ) from error
    return StepVectors(parts["direction"], parts["preconditioner"], kappa)
