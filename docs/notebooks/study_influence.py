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
# # Which tokens drain entropy
#
# Every token of four recorded updates, with its influence on entropy and on expected reward
# (`studies/influence`). Influence is per unit learning rate; a negative influence drains entropy. Each
# update is one batch of 8 prompts, of which 5, 6, 3 and 3 carry a gradient; standard errors are over
# evaluation prompts, given that batch.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

study = Path("../../studies/influence")
tokens = pd.read_parquet(study / "tokens.parquet")
balance = pd.read_parquet(study / "balance.parquet")
columns = ["text", "kind", "advantage", "S", "entropy", "entropy_se", "reward"]
tokens.sort_values("entropy")[["checkpoint", *columns]].head(8)

# %% [markdown]
# ## A few tokens carry much of it
#
# The share of Σ|I_h|, the summed size of all influences on entropy, that the largest ones carry, over tokens
# with a gradient. They have both signs, and the sizes are those of noisy estimates. 1% of the tokens carry 23 to 53%
# (`python -m studies.influence_tables`).

# %%
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, part in tokens.groupby("checkpoint", sort=False):
    size = np.sort(part.loc[part["alpha"] != 0, "entropy"].abs())[::-1]
    share = np.arange(1, len(size) + 1) / len(size)
    ax.plot(share, np.cumsum(size) / size.sum(), label=name)
ax.set(xscale="log", xlabel="share of the tokens", ylabel="share of Σ|I_h|")
_ = ax.legend(frameon=False)
# %% [markdown]
# ## Batch, momentum, decay
#
# The tokens of this batch are a part of the step; the rest is momentum of earlier batches.

# %%
rows = balance[balance["objective"] == "entropy"]
(rows["value"] * rows["learning_rate"]).groupby(
    [rows["checkpoint"], rows["part"]], sort=False
).mean().unstack().round(4)

# %% [markdown]
# ## Do cheap scores find them?
#
# Rank correlation of influence with the scores that published remedies select by.

# %%
scores = pd.read_parquet(study / "scores.parquet")
token = scores.query("level == 'token' and target == 'entropy'")
token.pivot_table("rho", "score", "checkpoint", sort=False).round(2)

# %% [markdown]
# ## Removing them, predicted and observed
#
# Both are from the same prompts and share their noise: this tests the linear term and the fixed
# preconditioner, not whether other prompts would agree.

# %%
removals = pd.read_parquet(study / "removals.parquet")
entropy = removals[removals["objective"] == "entropy"]
entropy[["checkpoint", "by", "tokens", "predicted", "observed", "observed_se"]]
