"""Kernels of sequences against Jacobians taken by brute force."""

import numpy as np
import pytest
import torch

from entrometer import calculus
from entrometer.errors import InvalidValue
from entrometer.experiments.kernel import products
from entrometer.experiments.kernel.products import (
    Slab,
    cross_kernel,
    kernel_operator,
    kernels,
    sweeps,
    top_eigenvalues,
)
from entrometer.experiments.update import StepVectors
from entrometer.experiments.update_batch import Batch
from entrometer.passes import layout
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import plain_function, random_rollouts, small_policy

MEMORY = 1 << 40


def a_third(policy, rows):
    """Memory for the rows of a third of the parameters."""
    sizes = [p.numel() * p.element_size() for p in policy.trained().values()]
    return rows * sum(sizes) // 3


def policy_of(name):
    """LoRA or all parameters, of the tiny policy or a smaller one."""
    if name == "tiny":
        return tiny_policy(lora_rank=2, lora_std=0.05, precision="float64")
    return small_policy("qwen2", lora=name == "lora")


def rough(policy, seed=0):
    """A preconditioner over four decades."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (2 * torch.randn(p.shape, generator=generator, dtype=p.dtype)).exp()
        for name, p in policy.trained().items()
    }


def jacobian(policy, rollouts, alpha=None, gamma=None):
    """Gradients of each sequence's weighted S and H, by autograd of whole logits."""
    start = layout(rollouts).start
    a = np.ones(rollouts.tokens) if alpha is None else alpha
    c = np.zeros(rollouts.tokens) if gamma is None else gamma
    rows = []
    for i in range(rollouts.count):
        own = rollouts.select(np.array([i]))
        at = slice(start[i], start[i + 1])
        found = calculus.vjp(
            plain_function(policy, own),
            policy.trained(),
            (torch.from_numpy(a[at]), torch.from_numpy(c[at])),
        )
        rows.append(flat(found.gradient))
    return torch.stack(rows)


def flat(vector):
    return torch.cat([vector[n].flatten() for n in sorted(vector)])


def apart(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("name", ["tiny", "lora", "all"])
@pytest.mark.parametrize("sparse", [False, True])
def test_kernels_are_products_of_jacobians_whatever_the_memory(name, sparse):
    policy, rollouts = policy_of(name), random_rollouts()
    P, J = rough(policy), jacobian(policy, rollouts)
    room = a_third(policy, rollouts.count) if sparse else MEMORY
    found = kernels(policy, rollouts, P, sketches=(), exact=True, memory=room)
    assert apart(found["sgd"], J @ J.T) < 1e-10
    assert apart(found["adam"], (J * flat(P)) @ J.T) < 1e-10
    for K in found.values():
        assert torch.equal(K, K.T)
        assert torch.linalg.eigvalsh(K).min() > 0


def test_float32_rows_are_multiplied_in_float64():
    policy, rollouts = tiny_policy(lora_rank=2, lora_std=0.05), random_rollouts()
    P = rough(policy)
    whole = kernels(policy, rollouts, P, sketches=(), exact=True, memory=MEMORY)
    room = a_third(policy, rollouts.count)
    parted = kernels(policy, rollouts, P, sketches=(), exact=True, memory=room)
    for metric, K in whole.items():
        assert apart(parted[metric], K) < 1e-13


def test_rows_are_taken_once_when_they_fit(monkeypatch):
    policy, rollouts = policy_of("lora"), random_rollouts()
    calls = []
    real = products.gather

    def gather(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(products, "gather", gather)
    kernels(policy, rollouts, rough(policy), sketches=(8,), exact=True, memory=MEMORY)
    assert len(calls) == 1


@pytest.mark.parametrize("exact", [True, False])
def test_sketches_are_those_of_the_features(exact):
    policy, rollouts = policy_of("lora"), random_rollouts()
    P = rough(policy)
    found = kernels(
        policy,
        rollouts,
        P,
        sketches=(32, 128),
        exact=exact,
        memory=a_third(policy, rollouts.count),
        seed=3,
    )
    J = jacobian(policy, rollouts)
    names = sorted(policy.trained())
    sizes = [policy.trained()[n].numel() for n in names]
    for metric, rows in {"sgd": J, "adam": J * flat(P).sqrt()}.items():
        parts = dict(zip(names, rows.split(sizes, dim=1), strict=True))
        s = calculus.Sketch(128, 3).apply(parts)
        assert apart(found[f"{metric}/128"], s @ s.T) < 1e-10
        assert (f"{metric}/32" in found) == (metric in found) == exact


def pulled(rollouts, alpha, gamma):
    """A batch whose loss pulls so on each token."""
    zeros = np.zeros(rollouts.tokens)
    return Batch(
        rollouts=rollouts,
        advantage=zeros,
        log_ratio=zeros,
        counted=zeros == 0,
        alpha=alpha,
        gamma=gamma,
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_the_cross_kernel_is_that_of_weighted_jacobians(sparse):
    policy, held = policy_of("lora"), random_rollouts()
    batch = random_rollouts(seed=5)
    P, alpha = rough(policy), np.random.default_rng(0).normal(size=batch.tokens)
    step = StepVectors(direction={}, preconditioner=P, kappa=0.3)
    room = a_third(policy, held.count + batch.count) if sparse else MEMORY
    loss = pulled(batch, alpha, np.zeros_like(alpha))
    found = cross_kernel(policy, held, loss, step, memory=room)
    left, right = jacobian(policy, held), jacobian(policy, batch, alpha)
    assert apart(found, 0.3 * (left * flat(P)) @ right.T) < 1e-10


@pytest.mark.parametrize("scores", [0.0, 1.0], ids=["alone", "beside scores"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_cross_kernel_has_the_pull_on_entropies(scores, sparse):
    """As under a bonus for entropy."""
    policy, held = policy_of("tiny"), random_rollouts()
    batch = random_rollouts(seed=5)
    rng = np.random.default_rng(0)
    alpha, gamma = scores * rng.normal(size=batch.tokens), rng.normal(size=batch.tokens)
    P = rough(policy)
    step = StepVectors(direction={}, preconditioner=P, kappa=0.3)
    room = a_third(policy, held.count + batch.count) if sparse else MEMORY
    found = cross_kernel(policy, held, pulled(batch, alpha, gamma), step, memory=room)
    left, right = jacobian(policy, held), jacobian(policy, batch, alpha, gamma)
    assert apart(found, 0.3 * (left * flat(P)) @ right.T) < 1e-10


@pytest.mark.parametrize("name", ["tiny", "all"])
def test_the_operator_has_products_and_spectrum_of_the_matrix(name):
    policy, rollouts = policy_of(name), random_rollouts()
    P, J = rough(policy), jacobian(policy, rollouts)
    K = ((J * flat(P)) @ J.T).numpy()
    operator = kernel_operator(policy, rollouts, P)
    a = np.random.default_rng(0).normal(size=rollouts.count)
    assert np.linalg.norm(operator @ a - K @ a) < 1e-10 * np.linalg.norm(K @ a)
    expected = np.linalg.eigvalsh(K)[::-1]
    for count in (2, rollouts.count):
        found = top_eigenvalues(operator, count)
        assert np.allclose(found, expected[:count], rtol=1e-9, atol=1e-10 * K.max())


@pytest.mark.parametrize("room", [1, 7, 12, 100])
def test_sweeps_take_every_element_once_and_fit(room):
    params = {"a": torch.zeros(3, 5, dtype=torch.float64), "b": torch.zeros(4).double()}
    parts = list(sweeps(params, rows=10, memory=room * 80 + 79))
    seen = [(s.name, i) for sweep in parts for s in sweep for i in range(*s[1:])]
    assert sorted(seen) == [("a", i) for i in range(15)] + [("b", i) for i in range(4)]
    assert all(sum(s.stop - s.start for s in sweep) <= room for sweep in parts)
    assert len(parts) == -(-19 // room)


def test_a_slab_is_a_part_of_a_parameter_laid_flat():
    v = {"a": torch.arange(6.0).reshape(2, 3)}
    assert Slab("a", 2, 5).of(v).tolist() == [2.0, 3.0, 4.0]


def test_memory_for_not_even_one_element_is_refused():
    with pytest.raises(InvalidValue, match="one element of 10 rows, got 79 bytes"):
        list(sweeps({"a": torch.zeros(3).double()}, rows=10, memory=79))
