"""Batches for tests of losses in the ratio: tokens one by one, and random ones."""

import torch

from entrometer.interventions import TokenTables, intervention

PLAIN = "dr-grpo"


def tokens(ratios, advantages, logprobs=None):
    """One response, whose loss is the plain sum over its tokens."""
    r = torch.tensor([ratios], dtype=torch.float64)
    A = torch.tensor([advantages], dtype=torch.float64)
    S = torch.full_like(r, -1.0) if logprobs is None else torch.tensor([logprobs]).to(r)
    return TokenTables(
        S=S,
        H=torch.ones_like(r),
        S_old=S - r.log(),
        A=A,
        mask=torch.ones_like(r, dtype=torch.bool),
        group=torch.zeros(1, dtype=torch.long),
        length_limit=1,
    )


def alphas(text, ratios, advantages, logprobs=None):
    """Token weights α of one response."""
    tables = tokens(ratios, advantages, logprobs)
    alpha, gamma = intervention(text).coefficients(tables)
    assert not gamma.any()
    return alpha[0].tolist()


def random_tables(seed=0, *, spread=0.4, rows=40, width=9, length_limit=12):
    """Groups of 4 with rewards of 0 and 1; off the mask there is nonsense."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    S = -3 * draw(rows, width) - 0.01
    noise = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    group = torch.arange(rows) // 4
    # The first two of a group differ, so that no group has a deviation of 0.
    rewards = (draw(rows) < 0.5).double()
    rewards[0::4], rewards[1::4] = 0.0, 1.0
    A = rewards - rewards.reshape(-1, 4).mean(dim=1).repeat_interleave(4)
    lengths = torch.randint(2, width + 1, (rows, 1), generator=generator)
    mask = torch.arange(width) < lengths
    return TokenTables(
        S=S.where(mask, -torch.inf),
        H=(2 * draw(rows, width)).where(mask, torch.nan),
        S_old=(S - spread * noise).where(mask, torch.nan),
        A=A[:, None].expand(rows, width).clone(),
        mask=mask,
        group=group,
        length_limit=length_limit,
    )


def difference_from_plain(text, tables):
    """Largest difference of token weights, over the largest weight."""
    own = intervention(text).coefficients(tables).alpha
    plain = intervention(PLAIN).coefficients(tables).alpha
    assert own.isfinite().all()
    assert not own[~tables.mask].any()
    return float((own - plain).abs().max() / plain.abs().max())


def plain_on_policy_only(text, *, round_off=0.0):
    """Whether it is plain at r = 1, and another at r ≠ 1, on several batches."""
    for seed in range(5):
        assert difference_from_plain(text, random_tables(seed, spread=0.0)) <= round_off
        assert difference_from_plain(text, random_tables(seed)) > 1e-3
    return True
