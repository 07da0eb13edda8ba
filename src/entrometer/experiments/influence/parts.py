"""Parts of an update that are no tokens of its batch: momentum and decay."""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float
from torch import Tensor

from entrometer.calculus import Vector, clip_scale, dot
from entrometer.experiments.update import StepVectors
from entrometer.policy import Checkpoint


def past_part(
    checkpoint: Checkpoint,
    step: StepVectors,
    ascent: Vector,
    age: int,
    *,
    max_grad_norm: float,
) -> dict[str, Tensor]:
    r"""What momentum carries on of a batch `age` steps ago.

    $\frac{1-\beta_1}{1-\beta_1^n}\beta_1^a c_{n-a}P\sum_k\alpha_k\nabla S_k$, with the
    loss and the clipping of then. Its gradient is taken at the parameters of now, for
    those of then are gone.
    """
    c = clip_scale(ascent, max_grad_norm) if max_grad_norm else 1.0
    beta1 = checkpoint.hyperparameters.betas[0]
    correction = 1 - beta1 ** (checkpoint.state.step + 1)
    weight = c * (1 - beta1) / correction * beta1**age
    return {n: weight * step.preconditioner[n] * g for n, g in ascent.items()}


def products(
    gradients: Iterable[Vector], vectors: Mapping[str, Vector]
) -> dict[str, Float[np.ndarray, " G"]]:
    """Products of each gradient with each vector: what the vector does to it."""
    rows = [{name: dot(g, v).item() for name, v in vectors.items()} for g in gradients]
    return {name: np.array([row[name] for row in rows]) for name in vectors}
