import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

SIX = {
    "p": [[0.5, 0.2, 0.9]] * 2,
    "A": [[0.5], [-0.5]],
    "H": [[0.1, 0.6, 0.4], [0.2, 0.5, 9.0]],
    "mask": [[True, True, True], [True, True, False]],
}


@pytest.mark.parametrize(
    ("rho", "kept"),
    [
        # Of 0.1, 0.2, 0.4, 0.5, 0.6 the quantile 0.8 is at 3.2: 0.52.
        (0.2, [[0, 1, 0], [0, 0, 0]]),
        # The quantile 0.75 is at 3, which is 0.5 itself: it stays.
        (0.25, [[0, 1, 0], [0, 1, 0]]),
        (0.26, [[0, 1, 0], [0, 1, 0]]),
        (0.0, [[0, 1, 0], [0, 0, 0]]),
        (1.0, [[1, 1, 1], [1, 1, 0]]),
    ],
)
def test_tokens_from_the_quantile_up_keep_their_gradient(rho, kept):
    found = intervention(f"high-entropy:rho={rho}").coefficients(hand(**SIX))
    same(found.alpha, scaled([[0.5] * 3, [-0.5] * 3]) * torch.tensor(kept))
    same(found.gamma, torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.parametrize(("r", "alpha"), [(1.1, 0.55), (1.3, 0.0), (0.7, 0.35)])
def test_what_is_kept_is_clipped_as_plain(r, alpha):
    found = intervention("high-entropy").coefficients(hand(**SIX, r=r))
    same(found.alpha, scaled([[0.0, alpha, 0.0], [0.0, 0.0, 0.0]]))


def test_a_chunk_without_counted_tokens_adds_nothing():
    mask = [[True, True, True], [False, False, False]]
    tables = hand(**(SIX | {"mask": mask}))
    found = intervention("high-entropy:rho=1,micro_batch=1").coefficients(tables)
    same(found.alpha, scaled([[0.5] * 3, [0.0] * 3]))
