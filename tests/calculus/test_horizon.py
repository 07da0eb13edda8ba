"""The mean direction of AdamW's next steps, against steps that are taken."""

import pytest
import torch

from entrometer.calculus import AdamWState, adamw_update, horizon_directions
from entrometer.calculus.adamw import AdamWHyperparameters
from entrometer.errors import InvalidValue

BETAS, EPSILON = (0.9, 0.95), 1e-8
HYPER = AdamWHyperparameters(BETAS, EPSILON, {"p": 0.0})


def state_after(steps, size=5):
    generator = torch.Generator().manual_seed(1)
    p = {"p": torch.zeros(size, dtype=torch.float64)}
    state = AdamWState.fresh(p)
    for _ in range(steps):
        g = {"p": torch.randn(size, generator=generator, dtype=torch.float64)}
        state = adamw_update(p, g, state, HYPER).state
    return p, state


def mean_direction(gradient, square, state, horizons):
    return horizon_directions(
        gradient,
        square,
        state.first_moment["p"],
        state.second_moment["p"],
        step=state.step,
        betas=BETAS,
        epsilon=EPSILON,
        horizons=horizons,
    )


def test_equal_gradients_make_the_steps_that_adamw_takes():
    """Without noise the average over steps is exact."""
    p, state = state_after(7)
    g = torch.tensor([0.3, -2.0, 0.0, 1e-4, 5.0], dtype=torch.float64)
    found = mean_direction(g, g**2, state, (1, 3, 20))
    taken = []
    for _ in range(20):
        made = adamw_update(p, {"p": g}, state, HYPER)
        taken.append(made.update.direction["p"])
        state = made.state
    for horizon, direction in zip((1, 3, 20), found, strict=True):
        expected = torch.stack(taken[:horizon]).mean(0)
        torch.testing.assert_close(direction, expected, rtol=1e-12, atol=1e-14)


def test_noisy_gradients_on_average():
    """With noise it is the mean over many continuations, to second order."""
    p, state = state_after(200)
    generator = torch.Generator().manual_seed(3)
    mean = torch.tensor([0.5, -0.2, 0.0, 1.0, 0.1], dtype=torch.float64)
    total, runs, horizon = torch.zeros_like(mean), 400, 16
    for _ in range(runs):
        now = state
        for _ in range(horizon):
            g = mean + torch.randn(5, generator=generator, dtype=torch.float64)
            made = adamw_update(p, {"p": g}, now, HYPER)
            total += made.update.direction["p"] / (runs * horizon)
            now = made.state
    (found,) = mean_direction(mean, mean**2 + 1, state, (horizon,))
    torch.testing.assert_close(found, total, rtol=0.1, atol=0.02)


def test_horizons_begin_at_one_step():
    p, state = state_after(1)
    with pytest.raises(InvalidValue, match="at least 1 step"):
        mean_direction(p["p"], p["p"], state, (0,))
