import pytest
import torch

from entrometer.calculus import (
    adam_preconditioner,
    dot,
    identity_preconditioner,
    multiply,
    whiten,
)
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch


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
