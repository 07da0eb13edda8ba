"""One step of a language model: its entropy, predicted and measured.

Usage: python examples/real_policy.py [tiny | smollm2 | a model directory]
"""

import sys

import numpy as np
import torch

from entrometer import calculus, passes
from entrometer import estimators as em
from entrometer.policy import add_adapter, load_policy, sample
from entrometer.tokens import centred_advantages

source = sys.argv[1] if len(sys.argv) > 1 else "tiny"
policy = add_adapter(load_policy(source), rank=8)
PROMPTS, GROUP, LIMIT, ETA = 12, 4, 24, 1e-5

# Rollouts: one batch to update on, another to measure on.
rng = np.random.default_rng(0)
texts = [f"{a}+{b}=" for a, b in rng.integers(10, 99, size=(2 * PROMPTS, 2))]
prompts = [policy.tokenizer(text)["input_ids"] for text in texts]
update_batch, evaluation_batch = (
    sample(
        policy,
        prompts[first : first + PROMPTS],
        prompt_ids=list(range(first, first + PROMPTS)),
        responses_per_prompt=GROUP,
        max_tokens=LIMIT,
        seed=seed,
    )
    for first, seed in ((0, 1), (PROMPTS, 2))
)

# The update: AdamW's first step on a Dr-GRPO loss that rewards short responses.
rewards = -torch.as_tensor(update_batch.length.reshape(PROMPTS, GROUP)).double()
advantages = centred_advantages(rewards).flatten().numpy()
per_token = passes.layout(update_batch).spread(-advantages / update_batch.count / LIMIT)
loss_weights = em.GradientWeights(S=per_token, H=np.zeros_like(per_token))
gradient = passes.vjp(policy, update_batch, loss_weights).gradient
theta = policy.trained()
step = calculus.adamw_update(
    theta,
    gradient,
    calculus.AdamWState.fresh(theta),
    calculus.AdamWHyperparameters((0.9, 0.999), 1e-8, dict.fromkeys(theta, 0.0)),
    max_norm=1.0,
)
v = step.update.direction

# Passes over the evaluation batch, and what they tell.
along = passes.jvp(policy, evaluation_batch, [v])
(there,) = passes.forward_along(policy, evaluation_batch, v, [ETA])
responses = passes.layout(evaluation_batch)
weighting = em.Weighting.PER_DECISION
entropy = em.entropy(em.entropy_statistics(responses, along.tables.H))
linear = ETA * em.linear_term(
    em.linear_statistics(
        responses, along.tables, along.tangents[0], weighting=weighting
    )
)
change = em.entropy_change(
    em.change_statistics(responses, along.tables, there, weighting=weighting)
)
print(f"{source}: {responses.tokens} tokens, derivatives by {along.by}")
for name, estimate in (
    ("entropy", entropy.estimate()),
    ("predicted change", linear.estimate()),
    ("measured change", change.estimate()),
):
    print(
        f"{name:>16}: {estimate.value:+.4e} nats per token, 95% interval "
        f"[{estimate.low:+.3e}, {estimate.high:+.3e}]"
    )
