import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh

from entrometer.calculus import per_sequence_gradients, score_kernel_operator
from entrometer.errors import ShapeMismatch


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
