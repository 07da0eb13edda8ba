"""Those that act where every ratio is 1, and a batch to try them on."""

from dataclasses import replace

import torch

from entrometer.interventions import TokenTables
from tests.interventions.hand import table

ON_POLICY = [
    "adaptive-bonus",
    "clip-b",
    "clip-cov",
    "clip-v",
    "entrocraft",
    "entropy-advantage",
    "entropy-bonus",
    "frontier",
    "high-entropy",
    "icepop",
    "kl-reference",
    "mis",
    "negative-filter",
    "negative-reinforced",
    "pass-at-k",
    "positive-only",
    "qae",
    "repo",
    "stapo",
    "stare",
    "steer",
    "tis",
]


def batch(ratios=True, **rest):
    """Six responses in two groups, of 4, 7, 0, 7, 2 and 5 tokens."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    S = -draw(6, 7).abs() - 0.05
    S_old = S - 0.2 * draw(6, 7) * ratios
    tables = TokenTables(
        S=S,
        S_old=S_old,
        H=0.3 * draw(6, 7).abs(),
        A=table([[0.75], [-0.25], [-0.5], [0.4], [-0.6], [0.2]]).expand(6, 7).clone(),
        mask=torch.arange(7) < torch.tensor([4, 7, 0, 7, 2, 5])[:, None],
        group=torch.tensor([0, 0, 0, 1, 1, 1]),
        length_limit=9,
        concentration=draw(6, 7),
        influence=(draw(6, 7), draw(6, 7)),
        seed=11,
        progress=0.5,
        S_engine=S_old - 0.3 * draw(6, 7),
        S_ref=S - 0.5 * draw(6, 7),
    )
    return replace(tables, **rest)
