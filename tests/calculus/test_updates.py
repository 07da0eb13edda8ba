import pytest
import torch

from entrometer.calculus import clip_scale, norm, scale, sgd_update
from entrometer.errors import InvalidValue, ShapeMismatch


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_clip_scale_is_that_of_torch(policy, factor):
    gradient = scale(policy.direction(1), factor)
    leaves = {n: torch.zeros_like(g).requires_grad_() for n, g in gradient.items()}
    for name, leaf in leaves.items():
        leaf.grad = gradient[name].clone()
    torch.nn.utils.clip_grad_norm_(list(leaves.values()), 2.0)
    expected = norm({n: leaf.grad for n, leaf in leaves.items()}) / norm(gradient)
    assert clip_scale(gradient, 2.0) == pytest.approx(expected.item(), rel=1e-14)


def test_gradient_shorter_than_the_limit_is_not_scaled():
    assert clip_scale({"w": torch.tensor([3.0, 4.0])}, 5.1) == 1.0
    assert clip_scale({"w": torch.tensor([3.0, 4.0])}, 2.5) == 2.5 / (5 + 1e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradient_that_is_not_finite_has_no_update(value):
    with pytest.raises(InvalidValue, match="finite gradient"):
        clip_scale({"w": torch.tensor([value])}, 1.0)


@pytest.mark.parametrize("max_norm", [0.0, -1.0, float("nan")])
def test_limit_must_be_positive(max_norm):
    with pytest.raises(InvalidValue, match="max_norm > 0"):
        clip_scale({"w": torch.ones(1)}, max_norm)


def test_part_of_another_shape_or_of_no_age_raises(policy):
    update = sgd_update(policy.params, policy.direction(1)).update
    wrong = {n: t[None] for n, t in policy.direction(2).items()}
    with pytest.raises(ShapeMismatch, match="expected shape"):
        update.part(wrong)
    with pytest.raises(InvalidValue, match="age >= 1"):
        update.past_part(policy.direction(2), age=0)
