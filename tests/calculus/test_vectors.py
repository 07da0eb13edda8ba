import pytest
import torch

from entrometer.calculus import add, dot, multiply, norm, scale, vectors, zeros_like
from entrometer.errors import MissingKey, ShapeMismatch


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
