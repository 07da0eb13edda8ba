import pytest
import torch

from entrometer.calculus import GradientNorms, squared_norms
from entrometer.errors import InvalidValue, MissingKey


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
