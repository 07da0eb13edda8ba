import pytest
import torch

from entrometer.calculus import (
    add,
    dot,
    multiply,
    norm,
    scale,
    vectors,
    zeros_like,
)
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch
from tests.calculus.gradient_norms import GradientNorms, squared_norms


@pytest.fixture
def a():
    return {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": torch.tensor([5.0])}


@pytest.fixture
def b():
    # Another order of names, to prove that names and not positions are matched.
    return {"b": torch.tensor([-1.0]), "w": torch.tensor([[2.0, 0.0], [1.0, -1.0]])}


def test_arithmetic_matches_numbers_worked_by_hand(a, b):
    assert dot(a, b).item() == 2 + 3 - 4 - 5
    assert norm(a).item() == 55**0.5
    assert add(a, b, scale=2.0)["w"].tolist() == [[5.0, 2.0], [5.0, 2.0]]
    assert scale(a, -2.0)["b"].tolist() == [-10.0]
    assert multiply(a, b)["w"].tolist() == [[2.0, 0.0], [3.0, -4.0]]
    assert zeros_like(a)["w"].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_dot_of_float32_is_multiplied_and_summed_in_float64():
    # In float32 every term but the first is lost: 2**24 + 1 is not a float32.
    ones = torch.ones(1001)
    a = {"w": torch.cat([torch.tensor([2.0**24]), ones])}
    b = {"w": torch.ones(1002)}
    assert dot(a, b).dtype == torch.float64
    assert dot(a, b).item() == 2**24 + 1001
    # The product itself is not rounded to float32 either.
    x = torch.tensor([1.0 + 2.0**-20])
    assert dot({"w": x}, {"w": x}).item() == (1.0 + 2.0**-20) ** 2


def test_dot_reads_strided_tensors_and_crosses_chunks(monkeypatch):
    monkeypatch.setattr(vectors, "_CHUNK", 7)
    x = torch.arange(30.0).reshape(5, 6).T
    y = torch.arange(30.0).reshape(6, 5) - 10
    assert dot({"w": x}, {"w": y}).item() == (x * y).sum().item()


def test_empty_vector_has_norm_zero():
    assert norm({}).item() == 0.0


@pytest.mark.parametrize("operation", [dot, add, multiply])
def test_misspelt_name_is_reported_with_the_nearest(operation, a):
    wrong = {"w": a["w"], "bb": a["b"]}
    with pytest.raises(MissingKey, match=r"missing 'b', extra 'bb'"):
        operation(a, wrong)
    long = {"layers.0.q_proj.weight": a["w"]}
    misspelt = {"layers.0.q_prj.weight": a["w"]}
    with pytest.raises(MissingKey, match=r"Did you mean 'layers.0.q_prj.weight'"):
        operation(long, misspelt)


@pytest.mark.parametrize("operation", [dot, add, multiply])
def test_shape_that_would_broadcast_is_refused(operation, a):
    with pytest.raises(ShapeMismatch, match=r"'w': expected shape \(2, 2\), got \(2,"):
        operation(a, {"w": torch.ones(2), "b": a["b"]})


def test_a_lazy_vector_loads_a_tensor_when_it_is_asked_for_and_keeps_none():
    loaded = []

    def load(name):
        loaded.append(name)
        return torch.ones(2)

    lazy = vectors.LazyVector("ab", load)
    vectors.check_names({"a": 1, "b": 2}, lazy)
    assert ("a" in lazy, "c" in lazy, len(lazy), loaded) == (True, False, 2, [])
    assert dot(lazy, {"a": torch.ones(2), "b": torch.ones(2)}) == 4
    assert {*loaded} == {"a", "b"}
    with pytest.raises(KeyError):
        lazy["c"]


def test_norms_match_numbers_worked_by_hand():
    gradients = [
        {"w": torch.tensor([3.0]), "b": torch.tensor([0.0])},
        {"w": torch.tensor([1.0]), "b": torch.tensor([2.0])},
    ]
    # Mean gradient (2, 1); squares 9 and 5.
    assert squared_norms(gradients) == GradientNorms(small=7.0, large=5.0, b=1, B=2)
    by_four = squared_norms(iter(gradients), groups_per_part=4)
    assert by_four == GradientNorms(small=7.0, large=5.0, b=4, B=8)


def test_noise_and_signal_are_recovered_without_bias():
    # E|g_b|^2 = |G|^2 + tr(Sigma)/b: the two equations that the noise scale inverts.
    generator = torch.Generator().manual_seed(0)
    G = torch.tensor([1.0, 2.0], dtype=torch.float64)
    signals, noises = [], []
    for _ in range(2000):
        noise = torch.randn(8, 2, generator=generator, dtype=torch.float64)
        small, large, b, B = squared_norms({"w": G + z} for z in noise)
        signals.append((B * large - b * small) / (B - b))
        noises.append((small - large) / (1 / b - 1 / B))
    for values, truth in ((signals, 5.0), (noises, 2.0)):
        x = torch.tensor(values, dtype=torch.float64)
        assert abs(x.mean() - truth) < 3 * x.std() / len(x) ** 0.5


def test_bfloat16_gradients_are_summed_in_float32():
    # 1 + 2**-8 is not a bfloat16: summed in it, the second part would be lost.
    parts = [torch.tensor([1.0]), torch.tensor([2.0**-8])]
    norms = squared_norms({"w": p.bfloat16()} for p in parts)
    assert norms.large == ((1 + 2.0**-8) / 2) ** 2


def test_gradients_given_are_left_as_they_were():
    gradients = [{"w": torch.ones(2)}, {"w": torch.ones(2)}]
    squared_norms(gradients)
    assert gradients[0]["w"].tolist() == [1.0, 1.0]


def test_one_part_or_parts_of_two_models_raise():
    one = {"w": torch.ones(2)}
    with pytest.raises(InvalidValue, match="at least two parts; got 1"):
        squared_norms([one])
    with pytest.raises(MissingKey, match="missing 'w', extra 'v'"):
        squared_norms([one, {"v": torch.ones(2)}])
    with pytest.raises(InvalidValue, match="groups_per_part >= 1"):
        squared_norms([one, one], groups_per_part=0)
