import copy

import pytest
import torch

from entrometer.calculus import add, clip_scale, norm, scale
from entrometer.errors import InvalidValue, ShapeMismatch
from tests.calculus.sgd import sgd_update


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


def distance(got, expected):
    return (norm(add(got, expected, scale=-1.0)) / norm(expected)).item()


def run(policy, *, momentum, weight_decay, max_norm, steps=6):
    """Our updates and torch's, with the clipped gradients, along one trajectory."""
    leaves = {n: p.clone().requires_grad_() for n, p in policy.params.items()}
    optimizer = torch.optim.SGD(
        list(leaves.values()), lr=1e-2, momentum=momentum, weight_decay=weight_decay
    )
    buffer, records = None, []
    for step in range(steps):
        before = {n: leaf.detach().clone() for n, leaf in leaves.items()}
        gradient = policy.direction(step)
        update, buffer = sgd_update(
            before,
            gradient,
            momentum_buffer=buffer,
            momentum=momentum,
            weight_decay=weight_decay,
            max_norm=max_norm,
        )
        for name, leaf in leaves.items():
            leaf.grad = gradient[name].clone()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(leaves.values()), max_norm)
        clipped = {n: leaf.grad.clone() for n, leaf in leaves.items()}
        # At learning rate 1, since the difference of parameters loses digits.
        unit = copy.deepcopy(optimizer)
        unit.param_groups[0]["lr"] = 1.0
        copies = dict(zip(leaves, unit.param_groups[0]["params"], strict=True))
        unit.step()
        after = {name: leaf.detach() for name, leaf in copies.items()}
        records.append((update, add(after, before, scale=-1.0), gradient, clipped))
        optimizer.step()
    return records


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_update_is_the_step_of_torch_and_the_sum_of_its_parts(
    policy, momentum, weight_decay, max_norm
):
    for update, yardstick, gradient, _ in run(
        policy, momentum=momentum, weight_decay=weight_decay, max_norm=max_norm
    ):
        assert distance(update.direction, yardstick) <= 1e-12
        half = {n: g * 0.25 for n, g in gradient.items()}
        rest = {n: g * 0.75 for n, g in gradient.items()}
        parts = add(update.part(half), update.part(rest))
        whole = add(add(update.decay, update.history), parts)
        assert distance(whole, update.direction) <= 1e-12


def test_float32_is_the_step_of_torch(policy32):
    for update, yardstick, _, _ in run(
        policy32, momentum=0.9, weight_decay=0.1, max_norm=1.0
    ):
        assert update.direction["up.bias"].dtype == torch.float32
        assert distance(update.direction, yardstick) <= 1e-6


def test_history_splits_over_past_batches(policy):
    records = run(policy, momentum=0.9, weight_decay=0.0, max_norm=1.0)
    past = [clipped for *_, clipped in records[-2::-1]]
    update = records[-1][0]
    parts, remainder = update.history_split(past)
    assert len(parts) == 5
    assert norm(remainder) <= 1e-13 * norm(update.history)


def test_past_decay_stays_in_the_remainder_of_history(policy):
    records = run(policy, momentum=0.9, weight_decay=0.1, max_norm=1.0)
    past = [clipped for *_, clipped in records[-2::-1]]
    remainder = records[-1][0].history_split(past).remainder
    # The decay of the step a steps ago has faded by 0.9**a.
    faded = [
        {n: 0.9**age * d for n, d in update.decay.items()}
        for age, (update, *_) in enumerate(records[-2::-1], 1)
    ]
    expected = faded[0]
    for vector in faded[1:]:
        expected = add(expected, vector)
    assert distance(remainder, expected) <= 1e-12


def test_wrong_settings_raise(policy):
    with pytest.raises(InvalidValue, match=r"momentum in \[0, 1\)"):
        sgd_update(policy.params, policy.direction(1), momentum=1.0)
    with pytest.raises(InvalidValue, match="weight_decay >= 0"):
        sgd_update(policy.params, policy.direction(1), weight_decay=-0.1)
