import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import LIMIT, hand, same, scaled, table

MASK = [[True, True, True], [True, True, False]]
FIVE = {
    "p": [[0.5, 0.2, 0.9]] * 2,
    "A": [[0.5], [-0.5]],
    "H": [[0.3, 1.2, 0.7], [2.0, 0.8, 9.0]],
    "mask": MASK,
}


def test_the_loss_has_the_mean_entropy_of_the_counted_tokens():
    # Plain: -(3·0.5 - 2·0.5) / 10 = -0.05. Mean H of five: 5.0 / 5 = 1.
    loss = intervention("entropy-bonus:alpha=0.25").loss(hand(**FIVE))
    same(loss, table(-0.05 - 0.25 * 1.0))


@pytest.mark.parametrize(
    ("r", "alpha"),
    [
        (1.0, [[0.5, 0.5, 0.5], [-0.5, -0.5, 0.0]]),
        (1.1, [[0.55, 0.55, 0.55], [-0.55, -0.55, 0.0]]),
        (1.3, [[0.0, 0.0, 0.0], [-0.65, -0.65, 0.0]]),
        (0.7, [[0.35, 0.35, 0.35], [0.0, 0.0, 0.0]]),
    ],
)
def test_gamma_is_the_bonus_and_alpha_is_plain(r, alpha):
    found = intervention("entropy-bonus").coefficients(hand(**FIVE, r=r))
    same(found.alpha, scaled(alpha))
    same(found.gamma, table([[0.002, 0.002, 0.002], [0.002, 0.002, 0.0]]))


def test_by_micro_batch_it_is_the_mean_of_their_means():
    # Responses one by one: means 2.2 / 3 and 2.8 / 2.
    tables = hand(**FIVE)
    loss = intervention("entropy-bonus:alpha=1,micro_batch=1").loss(tables)
    same(loss, table(-0.05 - (2.2 / 3 + 1.4) / 2))


def test_the_bonus_does_not_depend_on_the_length_limit():
    found = intervention("entropy-bonus").coefficients(hand(**FIVE))
    assert LIMIT == 5
    same(found.gamma.sum(), table(0.01))
