from dataclasses import replace

import pytest
import torch

from entrometer.interventions import intervention
from entrometer.tokens import dr_grpo_loss
from tests.interventions.hand import LIMIT, hand, same, scaled, table

MASK = [[True, True, True], [True, True, False]]


def five(**rest):
    return hand(
        **(
            {"p": [[0.5, 0.2, 0.9]] * 2, "A": [[0.5], [-0.25]], "mask": MASK}
            | {"r": [[1.0, 1.3, 0.7], [1.3, 0.7, 1.0]]}
            | rest
        )
    )


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.4, 0.1), (0.1, 0.4)])
def test_dr_grpo_is_that_of_the_tokens(low, high):
    tables = five()
    expected = dr_grpo_loss(
        tables.S,
        tables.S_old,
        table([0.5, -0.25]),
        tables.mask,
        length_limit=LIMIT,
        clip_low=low,
        clip_high=high,
    )
    same(intervention(f"dr-grpo:low={low},high={high}").loss(tables), expected)


def test_dr_grpo_by_hand():
    # Rewards: 0.5, 0.6 (clipped at 1.2), 0.35; losses 0.325 and 0.2 (clipped at 0.8).
    same(intervention("dr-grpo").loss(five()), table(-(1.45 - 0.525) / 10))
    found = intervention("dr-grpo").coefficients(five())
    same(found.alpha, scaled([[0.5, 0.0, 0.35], [-0.325, 0.0, 0.0]]))


def test_grpo_by_hand():
    # Rewards 1 and 0 in the first group: A = ±1/2, deviation √(1/2). In the second 1, 0
    # and 0: A = 2/3, -1/3, -1/3, deviation √(1/3). Lengths 2, 1, 3, 1, 2 divide.
    tables = hand(
        p=[[0.5, 0.2, 0.9]] * 5,
        A=[[1 / 2], [-1 / 2], [2 / 3], [-1 / 3], [-1 / 3]],
        mask=[[n < length for n in range(3)] for length in (2, 1, 3, 1, 2)],
    )
    tables = replace(tables, group=torch.tensor([7, 7, 3, 3, 3]))
    first, second = 0.5**0.5 + 1e-4, (1 / 3) ** 0.5 + 1e-4
    a, b, c = 0.5 / first / 2, -0.5 / first, 2 / 3 / second / 3
    d, e = -1 / 3 / second, -1 / 3 / second / 2
    expected = [[a, a, 0], [b, 0, 0], [c, c, c], [d, 0, 0], [e, e, 0]]
    found = intervention("grpo").coefficients(tables)
    same(found.alpha, table(expected) / 5)


def test_grpo_clips_as_plain():
    # Deviation of 0.5 and -0.25: 0.75/√2.
    scale = 1 / (0.75 * 0.5**0.5 + 1e-4)
    found = intervention("grpo").coefficients(five())
    expected = [
        [0.5 * scale / 3, 0.0, 0.35 * scale / 3],
        [-0.325 * scale / 2, 0.0, 0.0],
    ]
    same(found.alpha, table(expected) / 2)


def test_a_group_of_one_has_no_say():
    tables = hand(p=[[0.5]], A=[[0.0]])
    same(intervention("grpo").coefficients(tables).alpha, scaled([[0.0]]))
