# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Reading a training
#
# How did a training go, and how do several compare? Progress, entropy, signal and evaluations. The
# runs are SmolLM2-135M on sums: the reference run under plain Dr-GRPO (`studies/reference`), and the
# same start under two entropy bonuses. Replace them by your own directories.

# %%
from pathlib import Path

import matplotlib.pyplot as plt

import entrometer as em

studies = Path("../../studies")
runs = {
    "plain": em.read(studies / "reference"),
    "bonus 0.003": em.read(studies / "interventions/smollm2/weak"),
    "bonus 0.03": em.read(studies / "interventions/smollm2/strong"),
}
metrics = {name: run.frame("metrics") for name, run in runs.items()}
plain = metrics["plain"]
print(", ".join(plain.columns))

# %% [markdown]
# ## Progress, entropy and signal
#
# `entropy/token` is the entropy of the batch that was sampled, in nats per token;
# `frac_reward_zero_std` the share of prompts whose responses all have the same reward: they give
# no gradient.

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
shown = {
    "reward": "reward per response",
    "entropy/token": "entropy, nats per token",
    "frac_reward_zero_std": "prompts without signal",
}
for ax, (column, label) in zip(axes, shown.items(), strict=True):
    for name, frame in metrics.items():
        smooth = frame[column].rolling(4, min_periods=1).mean()
        ax.plot(frame["step"], smooth, label=name)
    ax.set(xlabel="step", ylabel=label)
_ = axes[0].legend(frameon=False)
# %% [markdown]
# ## How far did the policy move?
#
# The KL divergence from the start, if a training logs it (`kl`; TRL does with `beta > 0`); these did
# not. Every training has the clip: the share of tokens whose ratio left the trust region, 0 if each
# batch is used once.

# %%
plain[["step", "clip_ratio/region_mean", "grad_norm", "learning_rate"]].tail(4)

# %% [markdown]
# ## Noise
#
# The gradient noise scale, in prompts: a smaller update is mostly noise. A single step says little
# about it; all of them together say more.

# %%
trace, signal = plain["noise_scale/trace"].sum(), plain["noise_scale/signal"].sum()
print(f"noise scale over all steps: {trace / signal:.0f} prompts; an update has 8")

# %% [markdown]
# ## Predicted and observed
#
# Every eighth step the trainer predicted what its step would do to entropy, and then measured it, on the
# same held-out prompts, so that both have the noise of those prompts.

# %%
plain.dropna(subset="predicted_change/predicted").set_index("step")[
    ["predicted_change/predicted", "predicted_change/observed"]
].round(4)

# %% [markdown]
# ## Evaluations
#
# `entrometer eval RUN` evaluates every checkpoint on held-out problems; intervals are
# clustered by problem.

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
for ax, column in zip(axes, ("pass_at_1", "pass_at_8", "entropy"), strict=True):
    for name, run in runs.items():
        if "evaluation" not in run.names:
            continue
        e = run.frame("evaluation")
        line = ax.plot(e["step"], e[column], marker="o", label=name)[0]
        ax.fill_between(
            e["step"],
            e[f"{column}_low"],
            e[f"{column}_high"],
            alpha=0.2,
            color=line.get_color(),
        )
    ax.set(xlabel="step", ylabel=column)
_ = axes[0].legend(frameon=False)

# %% [markdown]
# `entrometer report RUN RUN` writes the same comparison as one page.
