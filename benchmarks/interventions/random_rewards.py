"""Clipping under rewards of coin tosses: one side raises entropy, the other lowers it.

With rewards that say nothing the expected step is 0, unless a clip takes out tokens of
one sign of A alone. Below, it takes out those that were to become rarer still, and what
is left pushes rare tokens up; above, those that were to become more common.
"""

# Axes: B responses, T tokens of a response.

from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import ttest_1samp
from torch import Tensor

from benchmarks.harness import Check
from entrometer.interventions import Intervention, TokenTables, intervention
from entrometer.policy import Policy, tiny_policy
from entrometer.tokens import token_entropy, token_logprobs

# With large steps entropy falls whatever the clip, and either clip slows that. These
# are so small that it is out of sight, and the clip is as narrow.
CLIP = 0.01
# A clip at 1 below, or at 1e9 above, is none.
ARMS = {
    "none": "dr-grpo:low=1,high=1e9",
    "low": f"dr-grpo:low={CLIP},high=1e9",
    "high": f"dr-grpo:low=1,high={CLIP}",
}
SEEDS = range(100, 108)
ROUNDS, MINIBATCHES = 6, 8
PROMPTS = torch.arange(10, 26)
GROUP, LENGTH, SAMPLES = 32, 4, 64
LEARNING_RATE = 2e-6
# The untrained policy is close to uniform; scaled logits leave entropy both ways to go.
SHARPNESS = 3.0


@dataclass(frozen=True)
class Trained:
    """Change of entropy, and the share of ratios farther from 1 than the clip."""

    change: float
    beyond: float


def scores(policy: Policy, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Tables S and H (B, T) of responses that follow the one token of their prompt."""
    logits = SHARPNESS * policy.model(input_ids=tokens[:, :-1]).logits
    return token_logprobs(logits, tokens[:, 1:]), token_entropy(logits)


@torch.no_grad()
def drawn(
    policy: Policy, prompts: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Prompts of one token with responses of `LENGTH`, and entropies before tokens."""
    last, past = prompts[:, None], None
    tokens, entropies = [last], []
    for _ in range(LENGTH):
        output = policy.model(input_ids=last, past_key_values=past, use_cache=True)
        past = output.past_key_values
        logits = SHARPNESS * output.logits[:, -1]
        last = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        tokens.append(last)
        entropies.append(token_entropy(logits))
    return torch.cat(tokens, dim=1), torch.stack(entropies, dim=1)


def entropy(policy: Policy) -> float:
    """Mean entropy of a token, over samples that are the same draws for every arm."""
    generator = torch.Generator().manual_seed(10**6)
    return float(drawn(policy, PROMPTS.repeat(SAMPLES), generator)[1].mean())


def trained(arm: Intervention, seed: int, heads: float) -> Trained:
    """Train on coin tosses, with heads for good (1) or for bad (−1)."""
    policy = tiny_policy(seed)
    generator = torch.Generator().manual_seed(seed)
    before = entropy(policy)
    optimizer = torch.optim.AdamW(
        policy.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0
    )
    group = torch.arange(len(PROMPTS)).repeat_interleave(GROUP)
    beyond = []
    for _ in range(ROUNDS):
        tokens, _ = drawn(policy, PROMPTS.repeat_interleave(GROUP), generator)
        with torch.no_grad():
            S_old, _ = scores(policy, tokens)
        tosses = torch.randint(2, (len(tokens),), generator=generator).to(S_old)
        A = heads * (tosses - 0.5)[:, None].expand_as(S_old)
        order = torch.randperm(len(tokens), generator=generator)
        for rows in order.chunk(MINIBATCHES):
            S, H = scores(policy, tokens[rows])
            tables = TokenTables(
                S=S,
                H=H,
                S_old=S_old[rows],
                A=A[rows],
                mask=torch.ones_like(S, dtype=torch.bool),
                group=group[rows],
                length_limit=LENGTH,
            )
            optimizer.zero_grad()
            arm.loss(tables).backward()
            optimizer.step()
            r = tables.ratio.detach()
            beyond.append(float(((r - 1).abs() > CLIP).float().mean()))
    return Trained(entropy(policy) - before, sum(beyond) / len(beyond))


def both_ways(arm: Intervention, seed: int) -> Trained:
    """Mean of two trainings with opposite rewards: what is odd in them cancels."""
    one, other = trained(arm, seed, 1.0), trained(arm, seed, -1.0)
    return Trained((one.change + other.change) / 2, (one.beyond + other.beyond) / 2)


def one_sided_clips() -> tuple[list[Check], dict[str, dict[str, Any]]]:
    """Change of entropy with a clip on one side, less that with none."""
    arms = {
        side: [both_ways(intervention(text), seed) for seed in SEEDS]
        for side, text in ARMS.items()
    }
    found: dict[str, dict[str, Any]] = {}
    for side in ("low", "high"):
        pairs = zip(arms[side], arms["none"], strict=True)
        apart = [own.change - none.change for own, none in pairs]
        interval = ttest_1samp(apart, 0.0).confidence_interval(0.95)
        found[side] = {
            "apart": apart,
            "mean": sum(apart) / len(apart),
            "lower": float(interval.low),
            "upper": float(interval.high),
            "beyond": sum(x.beyond for x in arms[side]) / len(SEEDS),
        }
    checks = [
        Check("interventions.coin.low_raises", found["low"]["lower"], at_least=0.0),
        Check("interventions.coin.high_lowers", found["high"]["upper"], at_most=0.0),
    ]
    return checks, found
