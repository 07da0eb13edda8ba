"""Shape annotations are checked inside every transform that this room uses.

A module imported through jaxtyping's hook, as the test run does with the package, meets
tensors that are wrapped: duals, batched ones, several levels of both. A check must
neither refuse a right shape there nor let a wrong one pass.
"""

import importlib

import pytest
import torch
from jaxtyping import TypeCheckError, install_import_hook
from torch import nn
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

from entrometer import calculus

SOURCE = """
from jaxtyping import Float
from torch import Tensor


def table(x: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
    return x.sin().sum(-1)


def wrong_result(x: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return x.sin().sum(-1)


def pair(x: Float[Tensor, "B T"], y: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
    return x.sin().sum(-1) + y
"""


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hooked")
    (folder / "hooked_tables.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with install_import_hook("hooked_tables", "beartype.beartype"):
            yield importlib.import_module("hooked_tables")


class Scale(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.f = f

    def forward(self, x):
        return self.f(self.weight * x)


def in_functional_call(f, x):
    return functional_call(Scale(f), {"weight": torch.ones(())}, (x,))


def in_jvp_of_functional_call(f, x):
    one = torch.ones(())
    return jvp(
        lambda w: functional_call(Scale(f), {"weight": w}, (x,)), (one,), (one,)
    )[1]


def in_nested_jvp(f, x):
    return jvp(lambda p: jvp(f, (p,), (x,))[1], (x,), (x,))[1]


def in_vmap_of_jvp(f, x):
    return vmap(lambda v: jvp(f, (x,), (v,))[1])(torch.stack([x, 2 * x]))


def in_our_jvp(f, x):
    return calculus.jvp(lambda p: (f(p["x"]),), {"x": x}, {"x": x}).first


def in_our_jvp2(f, x):
    return calculus.jvp2(lambda p: (f(p["x"]),), {"x": x}, {"x": x}).second


def in_our_vjp(f, x):
    cotangent = torch.ones(x.shape[0])
    return calculus.vjp(lambda p: (f(p["x"]),), {"x": x}, (cotangent,)).gradient


TRANSFORMS = {
    "plain": lambda f, x: f(x),
    "functional_call": in_functional_call,
    "jvp": lambda f, x: jvp(f, (x,), (x,))[1],
    "nested jvp": in_nested_jvp,
    "vjp": lambda f, x: vjp(f, x)[1](torch.ones(x.shape[0])),
    "grad": lambda f, x: grad(lambda p: f(p).sum())(x),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jvp of grad": lambda f, x: jvp(grad(lambda p: f(p).sum()), (x,), (x,))[1],
    "vmap": lambda f, x: vmap(f)(torch.stack([x, 2 * x])),
    "vmap of jvp": in_vmap_of_jvp,
    "jvp of functional_call": in_jvp_of_functional_call,
    "our jvp": in_our_jvp,
    "our jvp2": in_our_jvp2,
    "our vjp": in_our_vjp,
}
every_transform = pytest.mark.parametrize(
    "transform", TRANSFORMS.values(), ids=TRANSFORMS.keys()
)


@every_transform
def test_right_shape_passes(hooked, transform):
    transform(hooked.table, torch.ones(3, 2))


@every_transform
def test_wrong_rank_raises(hooked, transform):
    with pytest.raises(TypeCheckError, match="table"):
        transform(hooked.table, torch.ones(3, 2, 2))


@every_transform
def test_wrong_result_raises(hooked, transform):
    with pytest.raises(TypeCheckError, match="wrong_result"):
        transform(hooked.wrong_result, torch.ones(3, 2))


@every_transform
def test_axes_are_bound_between_arguments(hooked, transform):
    transform(lambda x: hooked.pair(x, x[:, 0]), torch.ones(3, 2))
    with pytest.raises(TypeCheckError, match="pair"):
        # A result of one row would broadcast without a word.
        transform(lambda x: hooked.pair(x, x[:1, 0]), torch.ones(3, 2))


@every_transform
def test_wrong_type_of_number_raises(hooked, transform):
    with pytest.raises(TypeCheckError, match="table"):
        transform(lambda x: hooked.table((x > 0).long()) * x[:, 0], torch.ones(3, 2))


def test_vmap_hides_its_axis_from_the_check(hooked):
    stacked = torch.ones(4, 3, 2)
    assert vmap(hooked.table)(stacked).shape == (4, 3)
    with pytest.raises(TypeCheckError, match="table"):
        hooked.table(stacked)
