import importlib

import pytest
import torch

from entrometer.calculus import (
    cross_gram,
    gram,
    inner_products,
    per_sequence_gradients,
    whiten,
)
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch

N, M = 7, 4


def rows_of(seed, n, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"w": (3, 5), "b": (5,), "s": ()}
    return {
        name: torch.randn(n, *shape, generator=generator, dtype=dtype)
        for name, shape in shapes.items()
    }


def sliced(rows):
    return lambda start, stop: {name: t[start:stop] for name, t in rows.items()}


def dense(rows):
    return torch.cat([t[..., None].flatten(1).double() for t in rows.values()], dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tile", [1, 3, 7, 20])
def test_gram_is_the_dense_product_for_every_tile(dtype, tile):
    rows = rows_of(0, N, dtype)
    K = gram(sliced(rows), N, tile=tile)
    # Products of float32 numbers are exact in float64, so float32 is no looser.
    assert torch.allclose(K, dense(rows) @ dense(rows).T, rtol=1e-13, atol=1e-13)
    assert torch.equal(K, K.T)


@pytest.mark.parametrize("tile", [1, 3, 20])
def test_cross_gram_is_the_dense_product_for_every_tile(tile):
    a, b = rows_of(0, N), rows_of(1, M)
    K = cross_gram(sliced(a), N, sliced(b), M, tile=tile)
    assert torch.allclose(K, dense(a) @ dense(b).T, rtol=1e-13, atol=1e-13)


def test_gram_makes_the_upper_half_of_tile_pairs_only():
    rows, made = rows_of(0, N), []

    def features(start, stop):
        made.append((start, stop))
        return sliced(rows)(start, stop)

    gram(features, N, tile=3)
    tiles = [(0, 3), (3, 6), (6, 7)]
    assert made == [tiles[0], tiles[1], tiles[2], tiles[1], tiles[2], tiles[2]]


def test_products_cross_chunks(monkeypatch):
    # The package's `gram` is the function; this is the module.
    module = importlib.import_module("entrometer.calculus.gram")
    monkeypatch.setattr(module, "_CHUNK", 4)
    rows = rows_of(0, N)
    expected = dense(rows) @ dense(rows).T
    assert torch.allclose(inner_products(rows, rows), expected, rtol=1e-13, atol=1e-13)


def test_kernel_of_a_policy_is_positive_semidefinite_under_a_rough_preconditioner(
    policy32,
):
    P = {n: (4 * t).exp() for n, t in policy32.direction(1).items()}
    rows = per_sequence_gradients(policy32.scores, policy32.params)
    features = whiten(rows, P)
    K = gram(sliced(features), 5, tile=2)
    eigenvalues = torch.linalg.eigvalsh(K)
    assert eigenvalues.min() > 0
    J = dense(rows)
    P_dense = torch.cat([P[n].flatten() for n in rows]).double()
    expected = (J * P_dense) @ J.T
    assert (K - expected).norm() / expected.norm() < 1e-6


def test_features_with_a_wrong_number_of_rows_raise():
    rows = rows_of(0, N)
    with pytest.raises(ShapeMismatch, match=r"expected 3 rows from features\(0, 3\)"):
        gram(lambda start, stop: rows, N, tile=3)


def test_features_of_two_models_raise():
    a, b = rows_of(0, 3), rows_of(1, 3)
    with pytest.raises(MissingKey, match="missing 's'"):
        inner_products(a, {n: t for n, t in b.items() if n != "s"})
    with pytest.raises(ShapeMismatch, match=r"expected shape \(5,\), got \(4,\)"):
        inner_products(a, {**b, "b": b["b"][:, :4]})


@pytest.mark.parametrize(("n", "tile"), [(0, 1), (3, 0)])
def test_nothing_to_do_raises(n, tile):
    with pytest.raises(InvalidValue, match="at least one"):
        gram(sliced(rows_of(0, N)), n, tile=tile)
