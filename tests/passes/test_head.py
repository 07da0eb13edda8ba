"""The chunked head against autograd on whole logits."""

# Axes: N scored tokens, C features, V vocabulary, D directions.

import pytest
import torch
from torch.func import jvp
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from entrometer.passes import VocabularyHead
from tests.policy.small_models import relative

N, C, V, D = 41, 8, 67, 3
ONE_TOKEN = V * 8
"""Bytes of the logits of one token."""


def randn(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


h, W = randn(N, C, seed=0), randn(V, C, seed=1)
dh, ddh = randn(D, N, C, seed=2), randn(N, C, seed=3)
dweight = randn(D, V, C, seed=4)
a, b = randn(2, N, seed=5)
y = torch.randint(V, (N,), generator=torch.Generator().manual_seed(6))


@pytest.fixture(params=[ONE_TOKEN // 2, 5 * ONE_TOKEN, 1 << 24], ids=["1", "5", "all"])
def chunk_bytes(request):
    return request.param


@pytest.fixture(params=[(None, 1.0), (None, 0.6), (2.5, 1.0), (2.5, 1.7)], ids=str)
def head(request, chunk_bytes):
    softcap, temperature = request.param
    return VocabularyHead(W, softcap, temperature, chunk_bytes)


def whole(head):
    """S and H of whole logits, as torch would have them."""

    def tables(h, W):
        z = h @ W.T
        if head.softcap is not None:
            z = head.softcap * torch.tanh(z / head.softcap)
        logp = (z / head.temperature).log_softmax(-1)
        S = logp.gather(-1, y[:, None])[:, 0]
        return S, -(logp.exp() * logp).sum(-1)

    return tables


def test_forward_is_a_softmax_of_whole_logits(head):
    for got, expected in zip(head.forward(h, y), whole(head)(h, W), strict=True):
        assert relative(got, expected) < 1e-14


@pytest.mark.parametrize("trained", [True, False])
def test_jvp_is_forward_mode_ad(head, trained):
    tangents = list(dweight) if trained else [None] * D
    found = head.jvp(h, dh, y, tangents)
    for d in range(D):
        moved = dweight[d] if trained else torch.zeros_like(W)
        (S, H), (dS, dH) = jvp(whole(head), (h, W), (dh[d], moved))
        assert relative(found.S, S) < 1e-14
        assert relative(found.H, H) < 1e-14
        assert relative(found.dS[d], dS) < 1e-13
        assert relative(found.dH[d], dH) < 1e-13


def test_jvp_takes_some_directions_with_a_weight_and_some_without(head):
    both = head.jvp(h, dh[:2], y, [None, dweight[1]])
    assert relative(both.dS[0], head.jvp(h, dh[:1], y, [None]).dS[0]) < 1e-14
    assert relative(both.dS[1], head.jvp(h, dh[1:2], y, [dweight[1]]).dS[0]) < 1e-14


@pytest.mark.parametrize("trained", [True, False])
def test_jvp2_is_a_jvp_in_a_jvp_along_a_curved_path(head, trained):
    r"""Along $h + t\dot h + t^2\ddot h/2$ and $W + t\dot W$."""
    moved = dweight[0] if trained else torch.zeros_like(W)
    one, zero = torch.ones(()).double(), torch.zeros(()).double()

    def path(t):
        return whole(head)(h + t * dh[0] + t**2 / 2 * ddh, W + t * moved)

    def slope(t):
        return jvp(path, (t,), (one,))

    ((S, H), (dS, dH)), (_, (ddS, ddH)) = jvp(slope, (zero,), (one,))
    found = head.jvp2(h, dh[0], ddh, y, dweight[0] if trained else None)
    expected = (S, H, dS, dH, ddS, ddH)
    for name, value in zip(found._fields, expected, strict=True):
        assert relative(getattr(found, name), value) < 1e-13, name


def test_vjp_is_autograd_in_hidden_states_and_weight(head):
    leaves = [x.clone().requires_grad_() for x in (h, W)]
    S, H = whole(head)(*leaves)
    dh_expected, dweight_expected = torch.autograd.grad((a * S + b * H).sum(), leaves)
    found = head.vjp(h, y, a, b, weight_gradient=True)
    assert relative(found.S, S.detach()) < 1e-14
    assert relative(found.H, H.detach()) < 1e-14
    assert relative(found.hidden, dh_expected) < 1e-13
    assert relative(found.weight, dweight_expected) < 1e-13


def test_vjp_forms_no_weight_gradient_unless_asked(head):
    assert head.vjp(h, y, a, b).weight is None


def test_nothing_that_is_handed_in_changes(head):
    inputs = (h, W, dh, ddh, dweight, a, b)
    before = [x.clone() for x in inputs]
    head.forward(h, y)
    head.jvp(h, dh, y, list(dweight))
    head.jvp2(h, dh[0], ddh, y, dweight[0])
    head.vjp(h, y, a, b, weight_gradient=True)
    for x, was in zip(inputs, before, strict=True):
        assert torch.equal(x, was)


def test_a_token_of_vanishing_probability_is_finite_in_every_derivative():
    steep = VocabularyHead(1e3 * W)
    for table in (
        *steep.jvp(h, dh, y, list(dweight)),
        *steep.jvp2(h, dh[0], ddh, y, dweight[0]),
        *steep.vjp(h, y, a, b, weight_gradient=True),
    ):
        assert table.isfinite().all()


class SizeSpy(TorchDispatchMode):
    """The most elements that any operation returned."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.largest = max(self.largest, leaf.numel())
        return result


RUNS = {
    "forward": lambda head: head.forward(h, y),
    "jvp": lambda head: head.jvp(h, dh, y, list(dweight)),
    "jvp2": lambda head: head.jvp2(h, dh[0], ddh, y, dweight[0]),
    "vjp": lambda head: head.vjp(h, y, a, b, weight_gradient=True),
}


@pytest.mark.parametrize("softcap", [None, 2.5])
@pytest.mark.parametrize("run", RUNS)
def test_no_tensor_of_tokens_times_vocabulary_is_made(run, softcap):
    # What is there anyway, and smaller than the logits: hidden states and weight.
    given = max(h.numel() * D, W.numel())
    assert 2 * given < N * V
    with SizeSpy() as spy:
        RUNS[run](VocabularyHead(W, softcap, 0.7, 4 * ONE_TOKEN))
    assert spy.largest <= max(given, 4 * V)
    with SizeSpy() as spy:
        RUNS[run](VocabularyHead(W, softcap, 0.7))
    assert spy.largest == N * V


def test_a_chunk_of_logits_suits_the_device():
    """Per token 4,096 bytes: 16 MiB on a processor, 256 MiB elsewhere."""
    for device, tokens in (("cpu", 1 << 12), ("meta", 1 << 16)):
        chunks = list(
            VocabularyHead(torch.empty(1024, 2, device=device))._chunks(1 << 17)
        )
        assert [c.stop - c.start for c in chunks] == [tokens] * ((1 << 17) // tokens)
