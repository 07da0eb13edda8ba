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
# # How training on one response moves another
#
# The Fisher kernel of 256 responses at four checkpoints (`studies/kernel`): how large it is compared
# with its diagonal, what its spectrum is, and whether it predicts what a step does to held-out
# responses.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

study = Path("../../studies/kernel")
whole = pd.read_parquet(study / "whole.parquet")
whole.pivot_table(["effective_rank", "off_diagonal"], "step", "metric").round(2)

# %% [markdown]
# ## Spectrum
#
# Eigenvalues as shares of the trace, with the law of a Wishart matrix of the same trace and
# spread. A long tail continues where that law ends.

# %%
eigenvalues = pd.read_parquet(study / "eigenvalues.parquet")
adam = eigenvalues[eigenvalues["metric"] == "adam"]
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, part in adam.groupby("checkpoint", sort=False):
    trace = part["value"].sum()
    line = ax.plot(part["rank"], part["value"] / trace, label=name)[0]
    ax.plot(part["rank"], part["wishart"] / trace, ":", color=line.get_color())
ax.set(yscale="log", xlabel="rank", ylabel="share of the trace", ylim=(1e-5, 0.3))
_ = ax.legend(frameon=False)
# %% [markdown]
# ## Same prompt, other prompts

# %%
blocks = pd.read_parquet(study / "blocks.parquet")
cosine = blocks.query("metric == 'adam' and quantity == 'cosine'")
cosine.pivot_table(["mean", "size"], "checkpoint", "block", sort=False).round(3)

# %% [markdown]
# ## Predicted and observed, held out
#
# The change of a response's log-prob by the next step; `own` is the predicted effect of the
# batch alone, without momentum.

# %%
predictions = pd.read_parquet(study / "predictions.parquet")
for name, part in predictions.groupby("checkpoint", sort=False):
    r = np.corrcoef(part["predicted"], part["observed"])[0, 1]
    alone = np.corrcoef(part["own"], part["observed"])[0, 1]
    print(f"{name}: correlation {r:.3f}; of the batch alone {alone:.2f}")
