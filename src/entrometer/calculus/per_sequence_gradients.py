# Axes: R rows, one a sequence.

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jacrev

from entrometer.calculus.vectors import Vector


def per_sequence_gradients(
    scores: Callable[[Vector], Float[Tensor, "R"]],
    params: Vector,
    *,
    at_once: int | None = None,
) -> dict[str, Tensor]:
    r"""Rows $\nabla_\theta S_i$ of the Jacobian of `scores`: $(R, \ldots)$ a parameter.

    For any functional model, by reverse mode over a batch of unit cotangents. One
    forward pass over the $R$ sequences, then $R$ backward passes, each through all
    $R$ of them though only one row is not zero: $R^2$ sequence-backwards. A tile of
    one costs the fewest operations, a larger one trades them for fewer launches; a
    model that can materialise its rows itself needs $R$. Memory is $R$ gradients and
    the activations of `at_once` backward passes (all by default).
    """

    def f(theta: dict[str, Tensor]) -> Tensor:
        return scores(theta)

    # Parameters that `scores` holds itself may require a gradient: keep no graph.
    with torch.no_grad():
        rows: dict[str, Tensor] = jacrev(f, chunk_size=at_once)(dict(params))
    return rows
