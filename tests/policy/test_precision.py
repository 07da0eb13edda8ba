"""The spy sees what computes below float64, and nothing else."""

import pytest
import torch
from torch.func import jvp

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy
from entrometer.policy.precision import (
    LowPrecisionSpy,
    Precision,
    PrecisionLost,
    as_device,
    float64_only,
)


@pytest.fixture
def x():
    return torch.linspace(1, 2, 5, dtype=torch.float64)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_a_precision_has_the_type_of_its_name(name):
    assert Precision(name).dtype is getattr(torch, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_spy_counts_each_operation_below_float64_by_name(x, dtype):
    with LowPrecisionSpy() as spy:
        y = x.to(dtype)
        y.add(y).add(y)
    assert spy.found[f"aten._to_copy.default -> {dtype}"] == 1
    assert spy.found[f"aten.add.Tensor -> {dtype}"] == 2
    assert spy.found.total() == spy.operations == 3


def test_the_spy_lets_float64_and_integers_and_truth_values_pass(x):
    with LowPrecisionSpy() as spy:
        (x.sin() > 0).long().cumsum(0)
    assert spy.operations == 4
    assert not spy.found


def test_the_spy_looks_into_every_output(x):
    with LowPrecisionSpy() as spy:
        torch.max(x.float(), dim=0)
    assert spy.found["aten.max.dim -> torch.float32"] == 1


def test_the_spy_sees_a_tangent_and_a_gradient_pass_through_float32(x):
    """The value itself never goes through float32: only its derivatives do."""

    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g.float().double() * 2

        @staticmethod
        def jvp(ctx, t):
            return t.float().double() * 2

    with LowPrecisionSpy() as forward_only:
        Careless.apply(x)
    with LowPrecisionSpy() as backward:
        Careless.apply(x.clone().requires_grad_()).sum().backward()
    with LowPrecisionSpy() as tangent:
        jvp(Careless.apply, (x,), (x,))
    assert not forward_only.found
    assert backward.found
    assert tangent.found


def test_float64_only_raises_at_the_end_and_names_the_operation(x):
    reached = []

    def compute():
        with float64_only():
            x.float()
            reached.append(True)

    with pytest.raises(PrecisionLost, match=r"expected float64 .*aten.*float32.*use "):
        compute()
    assert reached


def test_float64_only_lets_float64_pass(x):
    with float64_only() as spy:
        x.exp().sum()
    assert spy.operations == 2


def test_float64_only_does_not_hide_an_error_inside(x):
    with pytest.raises(RuntimeError, match="shape"), float64_only():
        x.float().view(7)


def test_the_spy_counts_complex_numbers_of_two_float32(x):
    with LowPrecisionSpy() as spy:
        torch.complex(x, x).to(torch.complex64)
    assert spy.found.total() == 1


ABSENT = f"cuda:{torch.cuda.device_count()}"


def test_a_device_that_is_there_is_taken():
    assert as_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("device", ["cudda", ABSENT])
def test_one_that_is_not_is_refused_before_anything_is_loaded(device):
    with pytest.raises(InvalidValue, match=f"a device of this machine.*{device}"):
        load_policy("no such model", device=device)
