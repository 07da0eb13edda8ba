"""Products of gradients against passes that never form a gradient row."""

import numpy as np
import pytest

from entrometer import passes
from entrometer.calculus import dot
from entrometer.estimators import GradientWeights
from entrometer.experiments.measure.plan import plan
from entrometer.experiments.measure.requests import (
    one_batch_products,
    two_batch_products,
)
from entrometer.experiments.requests import Worker


@pytest.fixture(scope="module", params=[0, 1], ids=["recorded", "sampled"])
def parts(request, measured, config):
    (point,) = plan(config)
    store = measured / "passes"
    worker = Worker(store)
    step = point.updates[request.param].step
    policy = worker.checkpoint(step.subject).policy
    rollouts = point.draws[0].read(store)
    return policy, rollouts, step.read_batch(store), step.read(store)


def test_their_mean_is_the_batch_s_own_part_of_the_slope(parts):
    policy, rollouts, batch, step = parts
    here = passes.forward(policy, rollouts)
    products = two_batch_products(policy, rollouts, here, batch, step)
    weights = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    ascent = passes.vjp(policy, batch.rollouts, weights).gradient
    v = {n: step.kappa * step.preconditioner[n] * g for n, g in ascent.items()}
    dS, dH = passes.jvp(policy, rollouts, [v]).tangents[0]
    layout = passes.layout(rollouts)
    G, M = layout.after(here.H), layout.remaining
    R = here.H.sum() / layout.tokens
    slope = (dH + (G - R * M) * dS).sum() / layout.tokens
    assert abs(slope) > 1e-6
    assert products.mean() == pytest.approx(slope, rel=1e-9)


def test_a_product_is_that_of_two_gradients(parts):
    policy, _, batch, step = parts
    rollouts = batch.rollouts
    products = one_batch_products(policy, batch, step)
    prompts = np.unique(rollouts.prompt)
    layout = passes.layout(rollouts)
    S = layout.total(passes.forward(policy, rollouts).S)
    for n, m in ((0, 1), (2, 0), (3, 3)):
        own = np.flatnonzero(rollouts.prompt == prompts[n])
        others = [(S[own].sum() - S[g]) / (own.size - 1) for g in own]
        X = np.zeros(rollouts.count)
        X[own] = (S[own] - others) / own.size
        Y = batch.alpha * layout.spread(rollouts.prompt == prompts[m])
        x, y = (
            passes.vjp(
                policy, rollouts, GradientWeights(S=a, H=np.zeros(layout.tokens))
            ).gradient
            for a in (layout.spread(X), Y)
        )
        y = {k: step.kappa * step.preconditioner[k] * g for k, g in y.items()}
        expected = float(dot(x, y)) * prompts.size
        assert products[n, m] == pytest.approx(expected, rel=1e-8, abs=1e-12)
