"""Forward derivatives against differences and reverse mode: two other ways to them."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from entrometer.calculus import add, jvp, jvp2, vjp
from entrometer.calculus.derivatives import composite_layer_norm
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch


def relative(got, expected):
    return ((got - expected).norm() / expected.norm()).item()


def weighted(policy, cotangents):
    """Scalar sum of the tables times constants, for reverse mode."""

    def f(params):
        pairs = zip(policy.tables(params), cotangents, strict=True)
        return sum((t * c).sum() for t, c in pairs)

    return f


@pytest.fixture
def cotangents(policy):
    generator = torch.Generator().manual_seed(5)
    return tuple(
        torch.randn(t.shape, generator=generator, dtype=t.dtype)
        for t in policy.tables(policy.params)
    )


def test_jvp_is_not_zero_and_matches_central_differences(policy):
    v = policy.direction(1)
    outputs, first = jvp(policy.tables, policy.params, v)
    eta = 2e-6
    plus = policy.tables(add(policy.params, v, scale=eta))
    minus = policy.tables(add(policy.params, v, scale=-eta))
    for table, output, p, m, tangent in zip(
        policy.tables(policy.params), outputs, plus, minus, first, strict=True
    ):
        assert torch.equal(output, table)
        assert tangent.abs().min() > 1e-4
        assert relative(tangent, (p - m) / (2 * eta)) < 1e-8


def test_jvp2_matches_differences_of_the_first_derivative(policy):
    v = policy.direction(1)
    outputs, first, second = jvp2(policy.tables, policy.params, v)
    once = jvp(policy.tables, policy.params, v)
    eta = 2e-6
    plus = jvp(policy.tables, add(policy.params, v, scale=eta), v).first
    minus = jvp(policy.tables, add(policy.params, v, scale=-eta), v).first
    for i in range(2):
        assert relative(outputs[i], once.outputs[i]) < 1e-14
        assert relative(first[i], once.first[i]) < 1e-14
        assert second[i].abs().min() > 1e-4
        assert relative(second[i], (plus[i] - minus[i]) / (2 * eta)) < 1e-7


def test_forward_mode_matches_double_reverse_mode(policy, cotangents):
    v = policy.direction(2)
    scalar = weighted(policy, cotangents)
    leaves = {n: p.clone().requires_grad_() for n, p in policy.params.items()}
    gradient = torch.autograd.grad(
        scalar(leaves), tuple(leaves.values()), create_graph=True
    )
    slope = sum((g * v[n]).sum() for n, g in zip(leaves, gradient, strict=True))
    curvature_v = torch.autograd.grad(slope, tuple(leaves.values()))
    curvature = sum((h * v[n]).sum() for n, h in zip(leaves, curvature_v, strict=True))

    _, first, second = jvp2(policy.tables, policy.params, v)
    forward1 = sum((t * c).sum() for t, c in zip(first, cotangents, strict=True))
    forward2 = sum((t * c).sum() for t, c in zip(second, cotangents, strict=True))
    assert forward1.item() == pytest.approx(slope.item(), rel=1e-12)
    assert forward2.item() == pytest.approx(curvature.item(), rel=1e-12)


def test_vjp_is_the_gradient_that_backward_accumulates(policy, cotangents):
    outputs, gradient = vjp(policy.tables, policy.params, cotangents)
    expected = torch.func.grad(weighted(policy, cotangents))(policy.params)
    assert all(not t.requires_grad for t in (*outputs, *gradient.values()))
    for name, g in expected.items():
        assert relative(gradient[name], g) < 1e-14


def test_float32_agrees_with_float64(policy, policy32):
    v = policy.direction(1)
    v32 = {name: t.float() for name, t in v.items()}
    exact = jvp2(policy.tables, policy.params, v)
    single = jvp2(policy32.tables, policy32.params, v32)
    for got, expected in zip(
        single.first + single.second, exact.first + exact.second, strict=True
    ):
        assert got.dtype == torch.float32
        assert relative(got.double(), expected) < 1e-5


def test_grad_mode_and_parameters_held_by_the_module_do_not_matter(policy):
    # Only a part of the trainable parameters is given: the others require a gradient.
    name = "mix.weight"
    part, v = {name: policy.params[name]}, {name: policy.direction(1)[name]}
    expected = jvp2(policy.tables, part, v)
    assert not any(t.requires_grad for tables in expected for t in tables)
    assert not any(t.requires_grad for t in jvp(policy.tables, part, v).first)
    with torch.no_grad():
        got = jvp2(policy.tables, part, v)
    assert torch.equal(got.second[1], expected.second[1])


def test_jvp2_of_a_linear_table_is_zero(policy):
    v = policy.direction(1)
    linear = jvp2(lambda p: (p["up.bias"] * 3,), policy.params, v)
    assert torch.equal(linear.first[0], v["up.bias"] * 3)
    assert torch.equal(linear.second[0], torch.zeros_like(v["up.bias"]))


def test_parameter_that_is_not_reached_has_gradient_zero(policy):
    ones = torch.ones(6, dtype=torch.float64)
    gradient = vjp(lambda p: (p["up.bias"] * 3,), policy.params, (ones,)).gradient
    assert gradient["up.bias"].tolist() == [3.0] * 6
    assert not gradient["mix.weight"].any()


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f, p, v: jvp(f, p, v),
        lambda f, p, v: jvp2(f, p, v),
        lambda f, p, v: vjp(f, p, [torch.ones(5, 5, dtype=torch.float64)] * 2),
    ],
    ids=["jvp", "jvp2", "vjp"],
)
def test_output_cut_from_the_parameters_raises_and_is_not_zero(policy, derivative):
    def cut(params):
        S, H = policy.tables(params)
        return S, H.detach()

    with pytest.raises(InvalidValue, match="for output 1"):
        derivative(cut, policy.params, policy.direction(1))


def test_direction_must_name_every_parameter_in_its_precision(policy):
    v = policy.direction(1)
    short = {name: t for name, t in v.items() if name != "up.bias"}
    with pytest.raises(MissingKey, match=r"missing 'up.bias'"):
        jvp(policy.tables, policy.params, short)
    with pytest.raises(InvalidValue, match=r"torch.float64; got torch.float32"):
        jvp(policy.tables, policy.params, {**v, "up.bias": v["up.bias"].float()})


def test_single_tensor_in_place_of_a_tuple_raises(policy):
    with pytest.raises(InvalidValue, match=r"return \(output,\)"):
        jvp(policy.scores, policy.params, policy.direction(1))


def test_cotangent_of_another_shape_raises(policy):
    ones = torch.ones(5, dtype=torch.float64)
    with pytest.raises(ShapeMismatch, match=r"\[\(5, 5\), \(5, 5\)\]; got \[\(5,\)"):
        vjp(policy.tables, policy.params, (ones, ones))


def test_non_reentrant_checkpointing_changes_nothing(policy, cotangents):
    def tables(params):
        return checkpoint(policy.tables, params, use_reentrant=False)

    v = policy.direction(1)
    plain, saved = (jvp(f, policy.params, v) for f in (policy.tables, tables))
    assert torch.equal(plain.first[1], saved.first[1])
    plain, saved = (vjp(f, policy.params, cotangents) for f in (policy.tables, tables))
    assert torch.equal(plain.gradient["mix.weight"], saved.gradient["mix.weight"])


def test_attention_needs_the_math_backend():
    q = torch.randn(1, 1, 4, 8, generator=torch.Generator().manual_seed(0))
    v = torch.ones_like(q)

    def attend(params):
        return (scaled_dot_product_attention(params["q"], q, q),)

    with sdpa_kernel(SDPBackend.MATH):
        tangent = jvp(attend, {"q": q}, {"q": v}).first[0]

    def by_hand(params):
        return ((params["q"] @ q.mT / 8**0.5).softmax(dim=-1) @ q,)

    expected = jvp(by_hand, {"q": q}, {"q": v}).first[0]
    assert relative(tangent, expected) < 1e-6
    with (
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        pytest.raises(NotImplementedError, match="forward AD"),
    ):
        jvp(attend, {"q": q}, {"q": v})


@pytest.mark.parametrize("shape", [(6,), (4, 6)])
@pytest.mark.parametrize("affine", [True, False])
def test_composite_is_layer_norm(shape, affine):
    generator = torch.Generator().manual_seed(0)
    x, w, b = torch.randn(3, 2, 4, 6, generator=generator, dtype=torch.float64)
    affine_arguments = (w[(0,) * (3 - len(shape))], b[(0,) * (3 - len(shape))])
    arguments = affine_arguments if affine else (None, None)
    expected = torch.nn.functional.layer_norm(x, shape, *arguments, eps=1e-3)
    got = composite_layer_norm(x, shape, *arguments, eps=1e-3)
    assert torch.allclose(got, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "layer_norm", [torch.nn.functional.layer_norm, torch.layer_norm]
)
def test_second_derivative_in_closed_form(layer_norm):
    # The two values (t, 0) with eps = 1/4 normalise to -+ t / sqrt(1 + t**2), and
    # weights (1, 2) make the sum -t / sqrt(1 + t**2): second derivative
    # 3 t / (1 + t**2)**(5/2).
    t = torch.tensor(0.7, dtype=torch.float64)
    weight = torch.tensor([1.0, 2.0], dtype=torch.float64)

    def f(params):
        x = torch.stack((params["t"], torch.zeros_like(t)))
        return (layer_norm(x, [2], weight, torch.zeros_like(weight), 0.25).sum(),)

    _, first, second = jvp2(f, {"t": t}, {"t": torch.ones_like(t)})
    assert first[0].item() == pytest.approx(-(1.49**-1.5), rel=1e-14)
    assert second[0].item() == pytest.approx(2.1 / 1.49**2.5, rel=1e-14)
