import math

import pytest
import torch

from entrometer.oracles import (
    EnumerablePolicy,
    dense_kernel,
    entropy_per_sequence,
    entropy_per_token,
    expected_reward,
    first_derivative,
    gradient,
    mean_length,
    moved,
    random_rewards,
    score_jacobian,
    second_derivative,
    sequence_logprobs,
    token_influence,
)

POLICY = EnumerablePolicy()
THETA = POLICY.parameters(0)
V = POLICY.parameters(1, scale=0.1)
OBJECTIVES = {
    "entropy per token": entropy_per_token(POLICY),
    "entropy per sequence": entropy_per_sequence(POLICY),
    "mean length": mean_length(POLICY),
    "reward": expected_reward(POLICY, random_rewards(POLICY, 0)),
}
each_objective = pytest.mark.parametrize(
    "f", list(OBJECTIVES.values()), ids=list(OBJECTIVES)
)


def test_probabilities_of_every_prompt_add_up_to_one():
    total = sequence_logprobs(POLICY, THETA).exp().sum(dim=1)
    assert total.tolist() == pytest.approx([1.0] * POLICY.prompts, abs=1e-14)


def test_uniform_policy_has_the_entropy_and_length_worked_by_hand():
    """Without weights every token has probability 1/3; a step goes on with 2/3."""
    zero = {name: torch.zeros_like(p) for name, p in THETA.items()}
    steps = sum((2 / 3) ** k for k in range(4))
    assert float(mean_length(POLICY)(zero)) == pytest.approx(steps, rel=1e-14)
    H = float(entropy_per_sequence(POLICY)(zero))
    assert pytest.approx(steps * math.log(3), rel=1e-14) == H
    assert float(entropy_per_token(POLICY)(zero)) == pytest.approx(math.log(3))


def test_reward_that_is_one_everywhere_has_mean_one_and_no_gradient():
    ones = torch.ones(POLICY.prompts, len(POLICY.sequences())).double()
    f = expected_reward(POLICY, ones)
    assert float(f(THETA)) == pytest.approx(1.0, abs=1e-14)
    assert all(g.abs().max() < 1e-14 for g in gradient(f, THETA).values())


@each_objective
def test_first_derivative_is_the_limit_of_central_differences(f):
    exact = first_derivative(f, THETA, V)
    e = 1e-4
    numeric = float(f(moved(THETA, V, e)) - f(moved(THETA, V, -e))) / (2 * e)
    assert abs(exact) > 1e-3
    assert numeric == pytest.approx(exact, rel=1e-7)


@each_objective
def test_second_derivative_is_the_limit_of_central_differences(f):
    exact = second_derivative(f, THETA, V)
    e = 1e-3
    ends = f(moved(THETA, V, e)) + f(moved(THETA, V, -e))
    assert abs(exact) > 1e-3
    assert float(ends - 2 * f(THETA)) / e**2 == pytest.approx(exact, rel=1e-4)


@each_objective
def test_gradient_along_a_direction_is_the_first_derivative(f):
    along = sum((g * V[n]).sum().item() for n, g in gradient(f, THETA).items())
    assert along == pytest.approx(first_derivative(f, THETA, V), rel=1e-12)


SMALL = EnumerablePolicy(length=3, prompts=2, width=3)
AT = SMALL.parameters(0)
P = {name: x.abs() + 0.1 for name, x in SMALL.parameters(1).items()}


def numerical_gradient(f, step=1e-5):
    """Central differences in every single parameter."""
    out = {name: torch.empty_like(p) for name, p in AT.items()}
    for name, p in AT.items():
        for j in range(p.numel()):
            unit = {n: torch.zeros_like(x) for n, x in AT.items()}
            unit[name].view(-1)[j] = 1.0
            difference = f(moved(AT, unit, step)) - f(moved(AT, unit, -step))
            out[name].view(-1)[j] = difference / (2 * step)
    return out


@pytest.mark.parametrize("row", [0, 5, 17])
def test_row_of_the_jacobian_is_the_gradient_of_that_score(row):
    exact = numerical_gradient(lambda p: sequence_logprobs(SMALL, p).flatten()[row])
    expected = torch.cat([g.flatten() for g in exact.values()])
    got = score_jacobian(SMALL, AT)[row]
    assert torch.allclose(got, expected, rtol=0, atol=1e-8)


def test_kernel_is_symmetric_and_positive_semidefinite():
    K = dense_kernel(SMALL, AT, P)
    eigenvalues = torch.linalg.eigvalsh(K)
    assert torch.allclose(K, K.T, rtol=1e-13, atol=1e-14)
    assert eigenvalues[0] > -1e-13 * eigenvalues[-1]


def test_kernel_of_the_identity_is_the_product_of_gradients():
    one = {name: torch.ones_like(p) for name, p in AT.items()}
    J = score_jacobian(SMALL, AT)
    K = dense_kernel(SMALL, AT, one)
    assert K[3, 8].item() == pytest.approx((J[3] * J[8]).sum().item(), rel=1e-12)


def test_score_has_mean_zero_so_probabilities_are_in_the_kernel_of_each_prompt():
    K = dense_kernel(SMALL, AT, P)
    p = sequence_logprobs(SMALL, AT).exp()
    M = p.shape[1]
    for k in range(SMALL.prompts):
        assert (K[:, k * M : (k + 1) * M] @ p[k]).abs().max() < 1e-13


def test_influence_of_a_token_is_the_change_that_its_own_part_makes():
    """Finite differences throughout: of S and H for v, then of the objective."""
    f = entropy_per_token(SMALL)
    prompt = torch.tensor([0, 1])
    tokens = torch.tensor([[1, 2, 0], [2, 0, 0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    alpha = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.7, 9.0]]).double()
    gamma = torch.tensor([[0.1, 0.0, -0.3], [0.2, 0.4, 9.0]]).double()
    got = token_influence(
        SMALL,
        AT,
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
            p = SMALL.logits(params, prompt, tokens)[i, k].softmax(dim=0)
            H = -(p * p.log()).sum()
            return alpha[i, k] * p[tokens[i, k]].log() + gamma[i, k] * H

        return objective

    for i, k in mask.nonzero().tolist():
        g = numerical_gradient(pulled(i, k))
        v = {name: 0.3 * P[name] * g[name] for name in g}
        e = 1e-4
        change = float(f(moved(AT, v, e)) - f(moved(AT, v, -e))) / (2 * e)
        assert got[i, k].item() == pytest.approx(change, rel=1e-5, abs=1e-8)
    assert got[1, 2].item() == 0.0
    assert got[mask].abs().min() > 1e-4
