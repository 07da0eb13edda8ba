"""Properties of sketches, kernels and update vectors."""

# Axes: R rows, M buckets.

import torch

from benchmarks.oracle.dense_kernel import gram
from entrometer.calculus import (
    AdamWHyperparameters,
    AdamWState,
    Sketch,
    adamw_update,
    add,
    dot,
    norm,
    scale,
    whiten,
)

from .property import Property, catches_broken_copy, each, holds

SHAPES = {"w": (3, 4), "b": (4,)}


def vector(seed, *rows):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(*rows, *shape, generator=generator, dtype=torch.float64)
        for name, shape in SHAPES.items()
    }


def linear(apply, case):
    seed, R = case
    x, y = vector(seed, R), vector(seed + 1, R)
    mixed = apply(add(scale(x, 2.0), y, scale=-3.0))
    assert torch.allclose(mixed, 2 * apply(x) - 3 * apply(y), rtol=1e-11, atol=1e-12)


def sketch(rows):
    return Sketch(m=8, seed=3).apply(rows)


def largest_of_each_bucket(rows):
    flat = torch.cat([x.flatten(1) for x in rows.values()], dim=1)
    return flat.reshape(len(flat), -1, 4).amax(dim=2)


def symmetric_and_positive(kernel, case):
    seed, R = case
    P = {n: x.exp() for n, x in vector(seed + 1).items()}
    rows = vector(seed, R)
    K = kernel(rows, P)
    eigenvalues = torch.linalg.eigvalsh(K)
    assert torch.equal(K, K.T)
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]
    assert torch.allclose(
        K.diagonal(),
        sum((x**2 * P[n]).flatten(1).sum(dim=1) for n, x in rows.items()),
        rtol=1e-11,
    )


def kernel_by_tiles(rows, P):
    phi = whiten(rows, P)
    n = len(rows["w"])
    return gram(lambda i, j: {k: x[i:j] for k, x in phi.items()}, n, tile=3)


def upper_half(rows, P):
    return kernel_by_tiles(rows, P).triu()


def step(seed, max_norm=0.5):
    """A step of AdamW in the middle of training."""
    theta, gradient, past = (vector(seed + k) for k in range(3))
    state = AdamWState(
        step=seed % 7,
        first_moment=scale(past, 0.1),
        second_moment={n: x**2 for n, x in past.items()},
    )
    hyper = AdamWHyperparameters((0.9, 0.99), 1e-8, {"w": 0.1, "b": 0.0})
    update, _ = adamw_update(theta, gradient, state, hyper, max_norm=max_norm)
    return gradient, update


def adds_up(part, case):
    seed, _ = case
    gradient, update = step(seed)
    first = vector(seed + 9)
    rest = add(gradient, first, scale=-1.0)
    total = add(update.history, update.decay)
    for g in (first, rest):
        total = add(total, part(update, g))
    difference = norm(add(total, update.direction, scale=-1.0))
    assert difference <= 1e-12 * norm(update.direction)


def part_of(update, g):
    return update.part(g)


def part_before_clipping(update, g):
    return scale(update.part(g), 1 / update.clip)


def adjoint_of_the_part(pair, case):
    r"""$\nabla h\cdot v_i = -u\cdot g_i$ for every gradient of h and part of g."""
    seed, _ = case
    _, update = step(seed)
    g, of_h = vector(seed + 5), vector(seed + 6)
    v, u = pair(update, g, of_h)
    size = norm(of_h) * norm(v)
    assert (dot(of_h, v) + dot(u, g)).abs() <= 1e-12 * size


def part_and_adjoint(update, g, of_h):
    return update.part(g), update.adjoint(of_h)


def adjoint_without_preconditioner(update, g, of_h):
    return update.part(g), scale(of_h, update.kappa)


PROPERTIES = [
    Property("a sketch is linear", linear, sketch, largest_of_each_bucket),
    Property(
        "a kernel is symmetric and positive semidefinite",
        symmetric_and_positive,
        kernel_by_tiles,
        upper_half,
    ),
    Property(
        "parts of an AdamW update add up to it",
        adds_up,
        part_of,
        part_before_clipping,
    ),
    Property(
        "the adjoint of an update moves the part to the gradient",
        adjoint_of_the_part,
        part_and_adjoint,
        adjoint_without_preconditioner,
    ),
]


@each(PROPERTIES)
def test_holds(it):
    holds(it)


@each(PROPERTIES)
def test_catches_broken_copy(it):
    catches_broken_copy(it)
