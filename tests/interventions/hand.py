"""Tables of a few tokens, written by hand, and what plain Dr-GRPO does with them."""

# Axes: B responses, T tokens of a response.

import torch

from entrometer.interventions import TokenTables

LIMIT = 5


def table(rows):
    return torch.tensor(rows, dtype=torch.float64)


def hand(*, p, r=1.0, A, H=0.5, mask=None, **rest):
    """Tables with probabilities `p` and ratios `r`, by response and token."""
    p_BT = table(p)
    S = p_BT.log()
    r_BT = table(r).expand_as(p_BT)
    B, T = p_BT.shape
    return TokenTables(
        S=S,
        S_old=S - r_BT.log(),
        H=table(H).expand(B, T).clone(),
        A=table(A).expand(B, T).clone(),
        mask=torch.ones(B, T, dtype=torch.bool) if mask is None else torch.tensor(mask),
        group=torch.zeros(B, dtype=torch.int64),
        length_limit=LIMIT,
        **rest,
    )


def scaled(rows):
    """Token weights α where -dl/dS of each token is as given: divided by BL."""
    return table(rows) / (len(rows) * LIMIT)


def same(got, expected):
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
