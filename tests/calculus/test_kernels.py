import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh

from benchmarks.oracle.dense_kernel import (
    gram,
    per_sequence_gradients,
    score_kernel_operator,
)
from entrometer.calculus import (
    adam_preconditioner,
    dot,
    identity_preconditioner,
    inner_products,
    kernels,
    multiply,
    whiten,
)
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch

N = 7


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


def test_gram_makes_the_upper_half_of_tile_pairs_only():
    rows, made = rows_of(0, N), []

    def features(start, stop):
        made.append((start, stop))
        return sliced(rows)(start, stop)

    gram(features, N, tile=3)
    tiles = [(0, 3), (3, 6), (6, 7)]
    assert made == [tiles[0], tiles[1], tiles[2], tiles[1], tiles[2], tiles[2]]


def test_products_cross_chunks(monkeypatch):
    monkeypatch.setattr(kernels, "_CHUNK", 4)
    rows = rows_of(0, N)
    expected = dense(rows) @ dense(rows).T
    assert torch.allclose(inner_products(rows, rows), expected, rtol=1e-13, atol=1e-13)


def test_products_of_two_tiles_are_dense_products():
    a, b = rows_of(0, N), rows_of(1, 4)
    expected = dense(a) @ dense(b).T
    assert torch.allclose(inner_products(a, b), expected, rtol=1e-13, atol=1e-13)


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


def dense_kernel(policy, P):
    rows = per_sequence_gradients(policy.scores, policy.params)
    J = torch.cat([rows[n].flatten(1) for n in policy.params], dim=1).double()
    diagonal = torch.cat([P[n].flatten() for n in policy.params]).double()
    return (J * diagonal) @ J.T


def test_products_are_those_of_the_dense_kernel(policy):
    P = {n: t.exp() for n, t in policy.direction(1).items()}
    K = dense_kernel(policy, P).numpy()
    operator = score_kernel_operator(policy.scores, policy.params, P)
    assert operator.shape == (5, 5)
    np.testing.assert_allclose(operator @ np.eye(5), K, rtol=1e-12)
    np.testing.assert_allclose(operator.H @ np.eye(5), K.T, rtol=1e-12)


def test_spectrum_is_that_of_the_dense_kernel(policy):
    P = {n: t.exp() for n, t in policy.direction(1).items()}
    values, vectors = torch.linalg.eigh(dense_kernel(policy, P))
    operator = score_kernel_operator(policy.scores, policy.params, P)
    top, basis = eigsh(operator, k=3, which="LM", v0=np.ones(5))
    np.testing.assert_allclose(top, values[-3:].numpy(), rtol=1e-10)
    overlap = np.abs(np.sum(basis * vectors[:, -3:].numpy(), axis=0))
    np.testing.assert_allclose(overlap, 1.0, rtol=1e-10)


def test_float32_model_gives_its_spectrum_in_float64(policy32):
    P = {n: t.exp() for n, t in policy32.direction(1).items()}
    values = torch.linalg.eigvalsh(dense_kernel(policy32, P))
    operator = score_kernel_operator(policy32.scores, policy32.params, P)
    top = eigsh(operator, k=2, v0=np.ones(5), tol=1e-8, return_eigenvectors=False)
    assert top.dtype == np.float64
    np.testing.assert_allclose(top, values[-2:].numpy(), rtol=1e-5)


def test_scores_by_token_raise(policy):
    ones = {n: torch.ones_like(p) for n, p in policy.params.items()}
    with pytest.raises(ShapeMismatch, match=r"shape \(N,\); got \(5, 5\)"):
        score_kernel_operator(lambda p: policy.tables(p)[0], policy.params, ones)


@pytest.mark.parametrize("at_once", [None, 1, 2])
def test_rows_are_the_gradients_of_one_sequence_after_another(policy, at_once):
    rows = per_sequence_gradients(policy.scores, policy.params, at_once=at_once)
    for i in range(5):
        leaves = {n: p.clone().requires_grad_() for n, p in policy.params.items()}
        policy.scores(leaves)[i].backward()
        for name, leaf in leaves.items():
            assert rows[name].shape == (5, *leaf.shape)
            error = (rows[name][i] - leaf.grad).norm() / leaf.grad.norm()
            assert error < 1e-13


def test_no_graph_is_kept_for_parameters_that_the_module_holds(policy):
    part = {"mix.weight": policy.params["mix.weight"]}
    rows = per_sequence_gradients(policy.scores, part)
    assert not rows["mix.weight"].requires_grad


def test_float32_agrees_with_float64(policy, policy32):
    exact = per_sequence_gradients(policy.scores, policy.params)
    single = per_sequence_gradients(policy32.scores, policy32.params)
    for name, rows in exact.items():
        assert single[name].dtype == torch.float32
        assert (single[name].double() - rows).norm() / rows.norm() < 1e-5


def test_adam_preconditioner_of_a_constant_gradient_is_one_over_its_size():
    # s = (1 - beta2**n) g**2 after n steps of the same g, so P = 1 / (|g| + eps).
    g = torch.tensor([0.5, -2.0, 0.0], dtype=torch.float64)
    s = {"w": (1 - 0.95**3) * g**2}
    P = adam_preconditioner(s, step=3, beta2=0.95, epsilon=1e-3)
    expected = torch.tensor([1 / 0.501, 1 / 2.001, 1e3], dtype=torch.float64)
    assert torch.allclose(P["w"], expected, rtol=1e-14, atol=0)


def test_adam_preconditioner_needs_a_step_taken():
    with pytest.raises(InvalidValue, match="step >= 1"):
        adam_preconditioner({"w": torch.ones(1)}, step=0, beta2=0.9, epsilon=1e-8)


def test_identity_preconditioner_changes_nothing_and_takes_no_memory(policy):
    P = identity_preconditioner(policy.params)
    g = policy.direction(1)
    assert all(torch.equal(Pg, g[n]) for n, Pg in multiply(P, g).items())
    assert all(p.untyped_storage().nbytes() == 8 for p in P.values())


def test_whitened_products_are_the_preconditioned_ones(policy):
    P = {n: t.exp() for n, t in policy.direction(1).items()}
    a, b = policy.direction(2), policy.direction(3)
    expected = dot(a, multiply(P, b)).item()
    assert dot(whiten(a, P), whiten(b, P)).item() == pytest.approx(expected, rel=1e-12)


def test_whiten_takes_rows_and_refuses_other_shapes(policy):
    P = {n: t.exp() for n, t in policy.direction(1).items()}
    a, b = policy.direction(2), policy.direction(3)
    rows = whiten({n: torch.stack([a[n], b[n]]) for n in a}, P)
    for n in a:
        assert torch.equal(rows[n], torch.stack([whiten(a, P)[n], whiten(b, P)[n]]))
    with pytest.raises(ShapeMismatch, match=r"'up.bias': expected shape \(6,\)"):
        whiten({**a, "up.bias": torch.ones(6, 2)}, P)
    with pytest.raises(ShapeMismatch, match=r"'mix.weight'"):
        whiten({**a, "mix.weight": torch.ones(6)}, P)
    with pytest.raises(MissingKey, match=r"missing 'up.bias'"):
        whiten({n: t for n, t in a.items() if n != "up.bias"}, P)
