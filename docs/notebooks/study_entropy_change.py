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
# # What one step does to entropy
#
# How well does a slope predict what a step does? Four checkpoints of a real training, the step that
# followed each and one that was sampled anew, at four learning rates, from the study's tables
# (`studies/entropy-change`). In float32; nats per token.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

study = Path("../../studies/entropy-change/float32")
changes = pd.read_parquet(study / "changes.parquet")
terms = pd.read_parquet(study / "terms.parquet")
selected = changes.query("weighting == 'per_decision' and per == 'token'")
selected = selected[selected["baseline"] == "none"]
selected.groupby("checkpoint", sort=False)["eta"].agg(["min", "max", "count"])

# %% [markdown]
# ## Predicted and observed
#
# Every point is a step that was taken. On the diagonal the slope predicts the change; off it the step
# has left the linear regime. Both are from the same prompts and share their noise; bars are 95%
# intervals over prompts, given the one update batch.

# %%
fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
for name, part in selected.groupby("checkpoint", sort=False):
    ax.errorbar(
        part["linear"],
        part["observed"],
        xerr=1.96 * part["linear_se"],
        yerr=1.96 * part["observed_se"],
        fmt="o",
        ms=4,
        lw=0.8,
        label=name,
    )
ends = np.array([selected["linear"].min(), selected["linear"].max()])
ax.plot(ends, ends, color="grey", lw=0.8)
ax.set(xlabel="predicted, nats per token", ylabel="observed, nats per token")
_ = ax.legend(frameon=False)
# %% [markdown]
# ## How far the prediction reaches
#
# $\eta^\ast$ is the learning rate at which the quadratic term is as large as the linear one; the
# training used 3e-4.

# %%
chosen = terms.query("weighting == 'per_decision' and per == 'token'")
chosen = chosen[chosen["baseline"] == "none"].set_index(["checkpoint", "update"])
chosen[["entropy", "slope", "slope_se", "eta_star", "eta_star_low", "eta_star_high"]]

# %% [markdown]
# ## How many prompts would be enough?
#
# The variance of one prompt says how many prompts an interval of a given width needs: here, for
# a prediction known to a tenth of itself at 95%.

# %%
need = (1.96 / 0.1) ** 2 * chosen["slope_se"] ** 2 / chosen["slope"] ** 2
(need * selected["prompts"].iloc[0]).round().astype(int).rename("prompts needed")
