"""What our code overrides in torch, or relies on beyond its documentation."""

from collections import OrderedDict
from types import MethodType

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.func import functional_call
from torch.func import jvp as torch_jvp
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.contracts.library import parameters


def test_a_forward_set_on_an_instance_is_called_and_can_be_removed():
    layer = nn.Linear(2, 2)
    plain, x = layer(torch.ones(2)), torch.ones(2)
    layer.forward = MethodType(lambda self, x: self.weight.new_zeros(2), layer)
    assert "forward" in layer.__dict__
    assert torch.equal(layer(x), torch.zeros(2))
    del layer.forward
    assert torch.equal(layer(x), plain)


def test_the_forward_hooks_of_a_module_are_the_ones_in_its_dictionary():
    layer, calls = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    hooks = layer._forward_hooks
    assert isinstance(hooks, OrderedDict)
    layer._forward_hooks = OrderedDict()
    layer(torch.ones(2))
    assert calls == []
    layer._forward_hooks = hooks
    layer(torch.ones(2))
    assert calls == [1]


def test_a_gradient_hook_sees_a_micro_batch_alone():
    """Before the gradient is added to those of the micro-batches before it."""
    p, seen = nn.Parameter(torch.zeros(1)), []
    p.register_hook(lambda gradient: seen.append(gradient.item()))
    for value in (1.0, 2.0):
        (value * p).sum().backward()
    assert seen == [1.0, 2.0]
    assert p.grad.item() == 3.0


def test_registering_a_parameter_calls_the_hook():
    """`skeleton` stops the construction of a model that is too large in it."""
    names = []
    hook = register_module_parameter_registration_hook(
        lambda module, name, parameter: names.append(name)
    )
    try:
        with torch.device("meta"):
            nn.Linear(2, 2)
    finally:
        hook.remove()
    nn.Linear(2, 2)
    assert names == ["weight", "bias"]


def test_a_function_mode_sees_layer_norm_inside_of_a_module():
    seen = []

    class Spy(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def f(x):
        return nn.LayerNorm(3)(x)

    with Spy():
        torch_jvp(f, (torch.ones(3),), (torch.ones(3),))
    assert nn.functional.layer_norm in seen or torch.layer_norm in seen


def test_a_function_mode_can_widen_a_requested_type():
    """So transformers' formulas of rotary frequencies are evaluated in float64."""

    class Widen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = {
                k: torch.float64 if v is torch.float32 else v
                for k, v in (kwargs or {}).items()
            }
            return func(*args, **kwargs)

    with Widen():
        assert torch.arange(2, dtype=torch.float32).dtype is torch.float64
        assert torch.ones(1).to(dtype=torch.float32).dtype is torch.float64


def test_a_dispatch_mode_sees_every_operation():
    seen = []

    class Spy(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            seen.extend(x.dtype for x in tree_leaves((result, [None])) if x is not None)
            return result

    with Spy():
        torch.ones(2).double().sum()
    assert seen == [torch.float32, torch.float64, torch.float64]


def test_a_missing_tangent_is_none_inside_of_jvp():
    """Outside, `jvp` has made zeros of it; so we look inside."""
    seen = []

    def f(x):
        y = x.detach() * 2
        seen.append(forward_ad.unpack_dual(y).tangent)
        seen.append(forward_ad.unpack_dual(x * 2).tangent)
        return y

    _, tangent = torch_jvp(f, (torch.ones(2),), (torch.ones(2),))
    assert seen[0] is None
    assert seen[1] is not None
    assert torch.equal(tangent, torch.zeros(2))


def test_a_functional_call_replaces_tied_weights_together():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model, x = Tied(), torch.ones(2)
    zeros = {"b.weight": torch.zeros(2, 2)}
    assert not functional_call(model, zeros, (x,), tie_weights=True).any()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["a.weight"]


@pytest.mark.parametrize(
    ("backward", "activation"),
    [
        (torch.ops.aten.silu_backward, nn.functional.silu),
        (torch.ops.aten.gelu_backward, nn.functional.gelu),
        (
            lambda t, g: torch.ops.aten.gelu_backward(t, g, approximate="tanh"),
            lambda g: nn.functional.gelu(g, approximate="tanh"),
        ),
    ],
)
def test_fused_backward_kernels_are_the_derivatives_of_activations(
    backward, activation
):
    g, t = torch.randn(2, 64, dtype=torch.float64)
    _, expected = torch_jvp(activation, (g,), (t,))
    assert torch.allclose(backward(t, g), expected, atol=1e-12)


def test_the_fused_kernel_returns_the_logarithms_of_its_sums():
    """Keys of fewer heads are shared by queries, and the scale is an argument."""
    q, k, v = (torch.randn(1, n, 5, 3, dtype=torch.float64) for n in (4, 2, 2))
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for causal in (False, True):
        out, logs = kernel(q, k, v, 0.0, causal, scale=0.3)
        s = 0.3 * q @ k.repeat_interleave(2, 1).mT
        if causal:
            s = s.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
        assert torch.allclose(logs, s.logsumexp(-1))
        assert torch.allclose(out, s.softmax(-1) @ v.repeat_interleave(2, 1))
    names = [argument.name for argument in kernel.default._schema.arguments]
    assert names[3:5] == ["dropout_p", "is_causal"]
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    names = [argument.name for argument in backward.default._schema.arguments]
    of_forward = ["grad_out", "query", "key", "value", "out", "logsumexp"]
    assert names[:8] == [*of_forward, "dropout_p", "is_causal"]


def test_saving_a_fresh_optimizer_takes_a_step_that_has_to_be_undone():
    """The first checkpoint with FSDP2 sets this state back to zero."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    before = [p.clone() for p in model.parameters()]
    get_optimizer_state_dict(model, optimizer)
    assert len(optimizer.state) == 2
    for state in optimizer.state.values():
        assert state["step"].item() == 1
        for value in state.values():
            value.zero_()
    assert all(
        torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True)
    )


def test_the_state_of_adamw_has_the_names_that_files_are_read_by():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([p])
    p.sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert state["state"][0].keys() == {"step", "exp_avg", "exp_avg_sq"}
    group = state["param_groups"][0]
    assert group["params"] == [0]
    assert {"lr", "betas", "eps", "weight_decay"} <= group.keys()


def test_a_sharded_tensor_says_how_it_was_cut():
    assert {"placements", "device_mesh", "to_local"} <= set(dir(DTensor))
    assert Shard(1).dim == 1
    assert Replicate() == Replicate()
    assert type(Shard(0)) is Shard


def test_random_numbers_of_a_pass_can_be_drawn_again():
    assert parameters(torch.random.fork_rng)[:2] == ["devices", "enabled"]
    assert "device_type" in parameters(torch.random.fork_rng)
    before = torch.get_rng_state()
    with torch.random.fork_rng(devices=[], device_type="cpu"):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


class Foreign:
    """Not on torch's list of harmless types."""


def test_files_of_tensors_are_read_without_running_anything(tmp_path):
    torch.save({"x": Foreign()}, tmp_path / "foreign.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        torch.load(tmp_path / "foreign.pt", weights_only=True, mmap=True)
    torch.save({"x": torch.ones(2)}, tmp_path / "plain.pt")
    with torch.serialization.safe_globals([]):
        loaded = torch.load(tmp_path / "plain.pt", weights_only=True, mmap=True)
    assert torch.equal(loaded["x"], torch.ones(2))
