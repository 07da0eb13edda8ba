"""AdamW's steps by several batches, and its mean direction if a loss is kept up."""

# Axes: K batches, P elements of a parameter.

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.calculus.adamw import adam_preconditioner
from entrometer.errors import InvalidValue


def batch_directions(
    gradients: Float[Tensor, "K P"],
    first_moment: Float[Tensor, " P"],
    second_moment: Float[Tensor, " P"],
    *,
    step: int,
    betas: tuple[float, float],
    epsilon: float,
) -> tuple[Float[Tensor, "K P"], Float[Tensor, "K P"]]:
    """Return the direction of AdamW's next step by each batch, and momentum's part.

    One parameter tensor and clipped gradients of the loss; without weight decay. Each
    batch has its own second moment, as if it alone were the next one.
    """
    beta1, beta2 = betas
    faded = -1 / (1 - beta1 ** (step + 1))
    square = beta2 * second_moment + (1 - beta2) * gradients**2
    P = adam_preconditioner({"": square}, step=step + 1, beta2=beta2, epsilon=epsilon)[
        ""
    ]
    history = faded * beta1 * P * first_moment
    return history + faded * (1 - beta1) * P * gradients, history


def jackknife_horizons(
    gradients: Float[Tensor, "K P"], *moments: Tensor, **settings: Any
) -> list[Float[Tensor, "_ P"]]:
    """Return `horizon_directions` by all batches, then by all but each, per horizon.

    `gradients` are clipped; `moments` and `settings` are those of
    `horizon_directions`.
    """
    K = len(gradients)
    means = []
    for x in (gradients, gradients**2):
        total = x.sum(dim=0, keepdim=True)
        means.append(torch.cat([total / K, (total - x) / (K - 1)]))
    return horizon_directions(means[0], means[1], *moments, **settings)


def horizon_directions(
    gradient: Tensor,
    square: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    *,
    step: int,
    betas: tuple[float, float],
    epsilon: float,
    horizons: Sequence[int],
) -> list[Tensor]:
    r"""Return AdamW's mean direction over the next H steps, for each horizon H.

    One parameter tensor, or several rows of it, at fixed parameters. With the mean
    $\bar g$ of the clipped batch gradients of a loss and their mean square $q$, AdamW's
    moments are on average
    $$m_t = \beta_1^t m + (1 - \beta_1^t)\,\bar g, \qquad
      s_t = \beta_2^t s + (1 - \beta_2^t)\,q,$$
    and the mean direction is $-\frac1H\sum_{t=1}^H
    \frac{m_t}{1-\beta_1^{n+t}} \big/ \big(\sqrt{s_t/(1-\beta_2^{n+t})} + \epsilon\big)$
    after n = `step` steps. Without weight decay. Its product with the gradient of
    entropy is entropy's mean change per step and unit learning rate.
    """
    if not horizons or min(horizons) < 1:
        raise InvalidValue(
            f"expected horizons of at least 1 step, got {list(horizons)}; name some"
        )
    beta1, beta2 = betas
    total = torch.zeros_like(gradient)
    m, root = torch.empty_like(gradient), torch.empty_like(gradient)
    found = {}
    # Few passes over memory: a hundred steps are most of the time of loss products.
    for t in range(1, max(horizons) + 1):
        torch.lerp(first_moment, gradient, 1 - beta1**t, out=m)
        torch.lerp(second_moment, square, 1 - beta2**t, out=root)
        debias = (1 - beta2 ** (step + t)) ** 0.5
        root.sqrt_().add_(epsilon * debias)
        total.addcdiv_(m, root, value=-debias / (1 - beta1 ** (step + t)))
        if t in horizons:
            found[t] = total / t
    return [found[h] for h in horizons]
