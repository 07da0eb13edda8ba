import pytest
import torch

from entrometer.calculus import Sketch
from entrometer.calculus.sketch import fold
from entrometer.errors import InvalidValue, ShapeMismatch

SEEDS = 2000
GOLDEN = [[40.0, 15.0, 6.0, 0.0]]


def pair():
    """Two rows, far from orthogonal, of three parameters, one a single number."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(30, generator=generator, dtype=torch.float64)
    b = a + torch.randn(30, generator=generator, dtype=torch.float64)
    rows = torch.stack([a, b])
    parts = {"w": rows[:, :24].reshape(2, 4, 6), "b": rows[:, 24:29], "s": rows[:, 29]}
    return parts, a, b


def products(m):
    rows, _, _ = pair()
    sketches = [Sketch(m, seed).apply(rows) for seed in range(SEEDS)]
    return torch.stack([s[0] @ s[1] for s in sketches])


@pytest.mark.parametrize("m", [1, 6, 32])
def test_inner_products_are_unbiased_with_the_stated_variance(m):
    _, a, b = pair()
    exact = (a @ b).item()
    variance = (a @ a * (b @ b) + (a @ b) ** 2 - 2 * (a**2 @ b**2)).item() / m
    got = products(m)
    assert abs(got.mean().item() - exact) < 3 * (variance / SEEDS) ** 0.5
    assert got.var().item() == pytest.approx(variance, rel=0.1)
    bound = Sketch(m, 0).error_bound(a.norm().item(), b.norm().item())
    assert bound == pytest.approx((2 / m) ** 0.5 * (a.norm() * b.norm()).item())
    assert variance**0.5 < bound


def test_error_falls_as_one_over_the_root_of_the_buckets():
    few, many = products(8), products(128)
    assert (few.std() / many.std()).item() == pytest.approx(4.0, rel=0.06)


def test_numbers_of_a_seed_do_not_change_between_processes_and_releases():
    rows = {"w": torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]])}
    assert Sketch(4, 7).apply(rows).tolist() == GOLDEN
    assert Sketch(4, 8).apply(rows).tolist() != GOLDEN


def test_parameters_add_up_in_any_order_and_any_shard():
    rows, _, _ = pair()
    sketch = Sketch(16, 3)
    whole = sketch.apply(rows)
    turned = sketch.apply(dict(reversed(rows.items())))
    shards = sum(sketch.apply({name: tensor}) for name, tensor in rows.items())
    assert torch.allclose(turned, whole, rtol=1e-13, atol=1e-13)
    assert torch.allclose(shards, whole, rtol=1e-13, atol=1e-13)
    single = torch.cat(
        [sketch.apply({n: t[i : i + 1] for n, t in rows.items()}) for i in range(2)]
    )
    assert torch.equal(single, whole)


def test_sketch_is_linear_and_float32_rows_are_summed_in_float64():
    rows, _, _ = pair()
    sketch = Sketch(16, 3)
    rows32 = {n: t.float() for n, t in rows.items()}
    back = {n: t.double() for n, t in rows32.items()}
    assert torch.equal(sketch.apply(rows32), sketch.apply(back))
    mixed = {n: (2 * t[0] - 3 * t[1])[None] for n, t in rows.items()}
    s = sketch.apply(rows)
    expected = 2 * s[0] - 3 * s[1]
    assert torch.allclose(sketch.apply(mixed)[0], expected, rtol=1e-12, atol=1e-12)


def test_parameter_longer_than_a_chunk_is_sketched_whole():
    # One bucket leaves only the signs: a row of ones has |sketch| of about sqrt(d), and
    # each element counts once.
    size = (1 << 18) + 1000
    eye = torch.zeros(3, size)
    eye[0, 5] = eye[1, (1 << 18) - 1] = eye[2, -1] = 1.0
    assert Sketch(1, 0).apply({"w": eye}).abs().tolist() == [[1.0]] * 3
    ones = Sketch(1, 0).apply({"w": torch.ones(1, size)}).abs().item()
    assert ones < 4 * size**0.5


def test_wrong_rows_and_buckets_raise():
    with pytest.raises(InvalidValue, match="at least one bucket"):
        Sketch(0, 0)
    with pytest.raises(ShapeMismatch, match="as many rows"):
        Sketch(4, 0).apply({"w": torch.ones(2, 3), "b": torch.ones(1, 3)})
    with pytest.raises(ShapeMismatch, match=r"rows \(R, ...\)"):
        Sketch(4, 0).apply({})


@pytest.mark.parametrize("m", [1, 4, 16])
def test_a_folded_sketch_is_unbiased_with_the_variance_of_its_own_size(m):
    rows, a, b = pair()
    sketches = [fold(Sketch(16, seed).apply(rows), m) for seed in range(SEEDS)]
    got = torch.stack([s[0] @ s[1] for s in sketches])
    variance = (a @ a * (b @ b) + (a @ b) ** 2 - 2 * (a**2 @ b**2)).item() / m
    assert abs(got.mean().item() - (a @ b).item()) < 3 * (variance / SEEDS) ** 0.5
    assert got.var().item() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("m", [0, 3, 32])
def test_a_fold_that_does_not_divide_raises(m):
    with pytest.raises(InvalidValue, match="divide the 16"):
        fold(torch.zeros(2, 16, dtype=torch.float64), m)
