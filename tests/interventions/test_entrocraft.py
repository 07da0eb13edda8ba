import pytest

from entrometer.errors import InvalidValue
from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled


def four(H, progress, **rest):
    return hand(p=[[0.5, 0.2]] * 2, A=[[0.5], [-0.5]], H=H, progress=progress, **rest)


@pytest.mark.parametrize(
    ("H", "progress", "right", "wrong"),
    [
        # The band is 0.6 to 0.7 at the start, 0.5 to 0.6 half way, 0.4 to 0.5 at last.
        (0.71, 0.0, 1, 0),
        (0.69, 0.0, 1, 1),
        (0.61, 0.0, 1, 1),
        (0.59, 0.0, 0, 1),
        (0.61, 0.5, 1, 0),
        (0.59, 0.5, 1, 1),
        (0.51, 0.5, 1, 1),
        (0.49, 0.5, 0, 1),
        (0.51, 1.0, 1, 0),
        (0.49, 1.0, 1, 1),
        (0.41, 1.0, 1, 1),
        (0.39, 1.0, 0, 1),
    ],
)
@pytest.mark.parametrize("r", [1.0, 1.1])
def test_one_sign_alone_outside_a_band_that_declines(H, progress, right, wrong, r):
    found = intervention("entrocraft").coefficients(four(H, progress, r=r))
    same(found.alpha, scaled([[0.5 * r * right] * 2, [-0.5 * r * wrong] * 2]))
    same(found.gamma, scaled([[0.0] * 2] * 2))


def test_it_is_the_mean_entropy_of_the_counted_tokens():
    H = [[0.3, 0.9], [0.9, 9.0]]
    mask = [[True, True], [True, False]]
    # Mean 0.7 of three: inside, and above with 0.01 more.
    inside = intervention("entrocraft:upper_start=0.71").coefficients(
        four(H, 0.0, mask=mask)
    )
    above = intervention("entrocraft:upper_start=0.69").coefficients(
        four(H, 0.0, mask=mask)
    )
    same(inside.alpha, scaled([[0.5, 0.5], [-0.5, 0.0]]))
    same(above.alpha, scaled([[0.5, 0.5], [0.0, 0.0]]))


def test_the_clip_is_plain():
    found = intervention("entrocraft").coefficients(four(0.65, 0.0, r=0.7))
    same(found.alpha, scaled([[0.35, 0.35], [0.0, 0.0]]))


def test_a_band_upside_down_is_refused():
    with pytest.raises(InvalidValue, match=r"got 0\.8 and 0\.7 at progress 0; reduce"):
        intervention("entrocraft:lower_start=0.8").loss(four(0.5, 0.0))
    intervention("entrocraft:lower_start=0.8").loss(four(0.5, 1.0))
