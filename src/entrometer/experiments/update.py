"""From an update batch to the step that AdamW makes of it."""

# Axes: K tokens of all responses.

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Update, Vector, adamw_update, scale
from entrometer.estimators import GradientWeights
from entrometer.policy import Checkpoint
from entrometer.runs import DamagedFile, Rollouts, Sampler, UpdateBatch, atomic_write
from entrometer.tokens import centred_advantages, dr_grpo_loss, loss_coefficients


@dataclass(frozen=True, eq=False)
class Batch:
    """Responses of an update, and how its loss pulls on each of their tokens."""

    rollouts: Rollouts
    """A prompt group has one prompt id."""

    alpha: Float[np.ndarray, " K"]
    r"""$\alpha_k = -\partial L/\partial S_k$."""


def recorded_batch(batch: UpdateBatch) -> Batch:
    """The batch that a training recorded, with the loss that it recorded.

    The ratio to the policy that sampled is the recorded one. Groups are told apart even
    where two have the same prompt.
    """
    rollouts = Rollouts(
        prompt=batch.group,
        prompt_tokens=batch.prompt_tokens,
        response_tokens=batch.response_tokens,
        seed=np.zeros(batch.count, np.int64),
        text=("",) * batch.count,
        reward=batch.reward,
        sampler=Sampler(
            name="recorded",
            temperature=batch.settings.temperature,
            max_tokens=batch.settings.max_tokens,
            model="",
            version="",
        ),
    )
    columns = (batch.S, batch.S_old, batch.advantage, batch.counted)
    S, S_old, A, counted = (np.concatenate(c) for c in columns)
    alpha = _alpha(
        torch.as_tensor(S, dtype=torch.float64),
        torch.as_tensor(S_old, dtype=torch.float64),
        torch.as_tensor(A, dtype=torch.float64),
        torch.as_tensor(counted),
        count=batch.count,
        length_limit=batch.settings.max_tokens,
    )
    return Batch(rollouts, alpha)


def sampled_batch(rollouts: Rollouts, responses: int) -> Batch:
    """A batch drawn from the policy itself: ratio 1, advantages within each group."""
    rewards = torch.tensor(rollouts.reward).reshape(-1, responses)
    A = centred_advantages(rewards).reshape(-1)
    S = torch.zeros(rollouts.tokens, dtype=torch.float64)
    alpha = _alpha(
        S,
        S,
        A.repeat_interleave(torch.as_tensor(rollouts.length)),
        torch.ones(rollouts.tokens, dtype=torch.bool),
        count=rollouts.count,
        length_limit=rollouts.sampler.max_tokens,
    )
    return Batch(rollouts, alpha)


def _alpha(
    S: Tensor,
    S_old: Tensor,
    A: Tensor,
    counted: Tensor,
    *,
    count: int,
    length_limit: int,
) -> np.ndarray:
    # A token a row: advantages may differ within a response. The loss divides by the
    # number of rows, which is then that of the tokens.
    def loss(S_K1: Tensor, _: Tensor) -> Tensor:
        mean = dr_grpo_loss(
            S_K1, S_old[:, None], A, counted[:, None], length_limit=length_limit
        )
        return mean * (S.numel() / count)

    S_K1 = S[:, None]
    alpha: np.ndarray = loss_coefficients(loss, S_K1, S_K1).alpha[:, 0].numpy()
    return alpha


def centred_rewards(
    reward: Float[np.ndarray, " N"], prompt: Int[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    r"""$A_i = r_i - \bar r$ over the responses to a prompt: what Dr-GRPO asks."""
    _, place, count = np.unique(prompt, return_inverse=True, return_counts=True)
    A: np.ndarray = reward - (np.bincount(place, reward) / count)[place]
    return A


class StepVectors(NamedTuple):
    """A step as it is kept."""

    direction: dict[str, Tensor]
    preconditioner: dict[str, Tensor]
    kappa: float


def make_step(checkpoint: Checkpoint, batch: Batch, *, max_grad_norm: float) -> Update:
    r"""Update $v$ of AdamW from the gradient $g = -\sum_k\alpha_k\nabla S_k$."""
    weights = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    ascent = passes.vjp(checkpoint.policy, batch.rollouts, weights).gradient
    return adamw_update(
        checkpoint.policy.trained(),
        scale(ascent, -1.0),
        checkpoint.state,
        checkpoint.hyperparameters,
        max_norm=max_grad_norm or None,
    ).update


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
