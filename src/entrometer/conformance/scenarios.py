"""Frozen batches on which two implementations of a loss are compared."""

# Axes: B responses, T tokens of a response, V tokens of the vocabulary.

from dataclasses import dataclass

import torch
from torch import Tensor

from entrometer.interventions import TokenTables

RESPONSES, GROUP, LIMIT, VOCABULARY = 16, 4, 12, 7


@dataclass(frozen=True, eq=False)
class Scenario:
    """A batch, and the number of responses that each backward pass gets."""

    name: str  #: Shown to the user, such as `ratios near 1, seed 0`.
    tables: TokenTables
    micro_batch: int = 0  #: Responses per backward pass; 0 for the whole batch.


SPREADS = {"ratio 1": 0.0, "ratios near 1": 0.3, "ratios far from 1": 1.5}
"""Deviation of the sampler's logits from the policy's, by the name of the scenario.

The clip at 0.2 stops about a third of the tokens of the second kind. Ratios of the
third kind pass 3, where some frameworks clip a second time.
"""


def scenarios(
    seeds: int = 2, micro_batch: int = 4, micro_batch_of: str = "ratios near 1"
) -> list[Scenario]:
    """Return the batches of every kind, for each seed, whole and in micro-batches.

    With a `micro_batch` of 0 every batch is whole.
    """
    found = []
    for seed in range(seeds):
        for name, spread in SPREADS.items():
            tables = seeded_tables(seed, spread=spread)
            found.append(Scenario(f"{name}, seed {seed}", tables))
            if micro_batch and name == micro_batch_of:
                split = f"{name}, seed {seed}, micro-batches of {micro_batch}"
                found.append(Scenario(split, tables, micro_batch))
    return found


def seeded_tables(seed: int, *, spread: float) -> TokenTables:
    """Return tables of distributions over a small vocabulary, in float64.

    Responses have 2 to `LIMIT` tokens and the table has `LIMIT` columns, so the divisor
    of Dr-GRPO is the same whether a framework takes the limit or the padded width. The
    longest response of each group has every token, so a micro-batch has the same width.
    """
    generator = torch.Generator().manual_seed(seed)
    B, T, V = RESPONSES, LIMIT, VOCABULARY

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    logits = 2.0 * normal(B, T, V)
    log_p = logits.log_softmax(dim=-1)
    log_q = (logits + spread * normal(B, T, V)).log_softmax(dim=-1)
    token = torch.multinomial(log_q.exp().flatten(0, 1), 1, generator=generator)
    S, q = (x.gather(-1, token.reshape(B, T, 1)).squeeze(-1) for x in (log_p, log_q))
    # They are computed apart: without a spread they must be equal to the bit.
    S_old = q if spread else S
    # Quarters: some frameworks hold rewards in float32, which has them exactly.
    rewards = torch.randint(0, 5, (B // GROUP, GROUP), generator=generator).double() / 4
    # No group without a spread of rewards: its advantages would all be 0.
    rewards[:, 0], rewards[:, 1] = 0.0, 1.0
    A = (rewards - rewards.mean(dim=1, keepdim=True)).reshape(B, 1)
    lengths = torch.randint(2, T + 1, (B, 1), generator=generator)
    lengths[::GROUP] = T
    return TokenTables(
        S=S,
        H=-(log_p.exp() * log_p).sum(dim=-1),
        S_old=S_old,
        A=A.expand(B, T).clone(),
        mask=torch.arange(T) < lengths,
        group=torch.arange(B) // GROUP,
        length_limit=LIMIT,
        concentration=(log_p.exp() ** 2).mul(log_p).sum(dim=-1)
        - (log_p.exp() ** 2).sum(dim=-1) * (log_p.exp() * log_p).sum(dim=-1),
        S_engine=S_old - 0.4 * normal(B, T),
        S_ref=S - 0.4 * normal(B, T),
        influence=(normal(B, T), normal(B, T)),
        seed=seed,
    )
