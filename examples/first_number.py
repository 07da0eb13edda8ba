"""How much entropy one step costs a small policy: predicted, measured, exact."""

import torch

from entrometer import calculus, estimators, oracles, tokens

policy = oracles.EnumerablePolicy()
theta = policy.parameters(seed=0)
generator = torch.Generator().manual_seed(0)

# Rollouts: 1,000 prompts, one response each, sampled at theta.
prompt = torch.randint(policy.prompts, (1000,), generator=generator)
sampled = torch.zeros(1000, policy.length, dtype=torch.long)
for k in range(policy.length):
    p = policy.logits(theta, prompt, sampled)[:, k].softmax(dim=-1)
    sampled[:, k] = torch.multinomial(p, 1, generator=generator)[:, 0]
mask = tokens.response_mask(sampled, eos=oracles.EOS)
responses = estimators.Responses.from_mask(torch.arange(1000).numpy(), mask.numpy())


# Passes: the tables S and H, here, after a step, and along it.
def tables(params: calculus.Vector) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob and entropy of every sampled token."""
    z = policy.logits(dict(params), prompt, sampled)
    return tokens.token_logprobs(z, sampled), tokens.token_entropy(z)


eta, v = 0.05, {name: -0.3 * x.sign() for name, x in theta.items()}
here = estimators.Tables(*(x[mask].numpy() for x in tables(theta)))
there = estimators.Tables(
    *(x[mask].numpy() for x in tables(calculus.add(theta, v, scale=eta)))
)
along = estimators.Tangents(
    *(x[mask].numpy() for x in calculus.jvp(tables, theta, v).first)
)

# Estimators: the true change and its linear prediction, from the same samples.
weighting = estimators.Weighting.PER_DECISION
change = estimators.entropy_change(
    estimators.change_statistics(responses, here, there, weighting=weighting)
)
linear = eta * estimators.linear_term(
    estimators.linear_statistics(responses, here, along, weighting=weighting)
)
exact = oracles.entropy_per_token(policy)
truth = exact(oracles.moved(theta, v, eta)) - exact(theta)
for name, estimate in (
    ("predicted", linear.estimate()),
    ("measured", change.estimate()),
):
    print(
        f"{name:>9}: {estimate.value:+.5f} nats per token, 95% interval "
        f"[{estimate.low:+.5f}, {estimate.high:+.5f}]"
    )
print(f"    exact: {truth:+.5f}")
