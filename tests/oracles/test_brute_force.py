import pytest
import torch

from entrometer.oracles import (
    EnumerablePolicy,
    dense_kernel,
    entropy_per_token,
    moved,
    score_jacobian,
    sequence_logprobs,
    token_influence,
)

POLICY = EnumerablePolicy(length=3, prompts=2, width=3)
THETA = POLICY.parameters(0)
P = {name: x.abs() + 0.1 for name, x in POLICY.parameters(1).items()}


def numerical_gradient(f, step=1e-5):
    """Central differences in every single parameter."""
    out = {name: torch.empty_like(p) for name, p in THETA.items()}
    for name, p in THETA.items():
        for j in range(p.numel()):
            unit = {n: torch.zeros_like(x) for n, x in THETA.items()}
            unit[name].view(-1)[j] = 1.0
            difference = f(moved(THETA, unit, step)) - f(moved(THETA, unit, -step))
            out[name].view(-1)[j] = difference / (2 * step)
    return out


@pytest.mark.parametrize("row", [0, 5, 17])
def test_row_of_the_jacobian_is_the_gradient_of_that_score(row):
    exact = numerical_gradient(lambda p: sequence_logprobs(POLICY, p).flatten()[row])
    expected = torch.cat([g.flatten() for g in exact.values()])
    got = score_jacobian(POLICY, THETA)[row]
    assert torch.allclose(got, expected, rtol=0, atol=1e-8)


def test_kernel_is_symmetric_and_positive_semidefinite():
    K = dense_kernel(POLICY, THETA, P)
    eigenvalues = torch.linalg.eigvalsh(K)
    assert torch.allclose(K, K.T, rtol=1e-13, atol=1e-14)
    assert eigenvalues[0] > -1e-13 * eigenvalues[-1]


def test_kernel_of_the_identity_is_the_product_of_gradients():
    one = {name: torch.ones_like(p) for name, p in THETA.items()}
    J = score_jacobian(POLICY, THETA)
    K = dense_kernel(POLICY, THETA, one)
    assert K[3, 8].item() == pytest.approx((J[3] * J[8]).sum().item(), rel=1e-12)


def test_score_has_mean_zero_so_probabilities_are_in_the_kernel_of_each_prompt():
    K = dense_kernel(POLICY, THETA, P)
    p = sequence_logprobs(POLICY, THETA).exp()
    M = p.shape[1]
    for k in range(POLICY.prompts):
        assert (K[:, k * M : (k + 1) * M] @ p[k]).abs().max() < 1e-13


def test_influence_of_a_token_is_the_change_that_its_own_part_makes():
    """Finite differences throughout: of S and H for v, then of the objective."""
    f = entropy_per_token(POLICY)
    prompt = torch.tensor([0, 1])
    tokens = torch.tensor([[1, 2, 0], [2, 0, 0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    alpha = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.7, 9.0]]).double()
    gamma = torch.tensor([[0.1, 0.0, -0.3], [0.2, 0.4, 9.0]]).double()
    got = token_influence(
        POLICY,
        THETA,
        f,
        prompt=prompt,
        tokens=tokens,
        mask=mask,
        alpha=alpha,
        gamma=gamma,
        preconditioner=P,
        kappa=0.3,
    )

    def pulled(i, k):
        def objective(params):
            p = POLICY.logits(params, prompt, tokens)[i, k].softmax(dim=0)
            H = -(p * p.log()).sum()
            return alpha[i, k] * p[tokens[i, k]].log() + gamma[i, k] * H

        return objective

    for i, k in mask.nonzero().tolist():
        g = numerical_gradient(pulled(i, k))
        v = {name: 0.3 * P[name] * g[name] for name in g}
        e = 1e-4
        change = float(f(moved(THETA, v, e)) - f(moved(THETA, v, -e))) / (2 * e)
        assert got[i, k].item() == pytest.approx(change, rel=1e-5, abs=1e-8)
    assert got[1, 2].item() == 0.0
    assert got[mask].abs().min() > 1e-4
