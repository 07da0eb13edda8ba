import pytest
import torch

from entrometer.calculus import jvp2
from entrometer.calculus.layer_norm import composite_layer_norm


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
