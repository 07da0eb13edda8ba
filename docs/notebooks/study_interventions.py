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
# # Which remedy suits a checkpoint
#
# Nineteen losses at four checkpoints, each predicted by influence and really taken
# (`studies/interventions`), and trainings to their end under eleven of them.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from entrometer.report.agreement import agreement
from entrometer.runs.comparison import Outcome
from entrometer.runs.rows import read_rows

study = Path("../../studies/interventions")
both = pd.concat(
    pd.read_parquet(study / place / "outcomes.parquet").assign(batch=place)
    for place in ("recorded", "stale")
)
tried = both[both["tried"] & (both["changed"] > 0) & (both["name"] != "dr-grpo")]
kept = tried.query("objective == 'entropy' and batch == 'recorded'")
kept.pivot_table("observed_gain", "name", "checkpoint", sort=False).round(4)

# %% [markdown]
# ## Predicted and taken
#
# Differences from plain Dr-GRPO, in nats a token and in reward a response. GRPO's loss is so much
# larger that AdamW's second moment answers within the step. Slope and R² are of the changes
# themselves, predicted on observed, through 0.

# %%
taken = [
    o
    for place in ("recorded", "stale")
    for o in read_rows(study / place / "outcomes.parquet", Outcome)
    if o.tried and (o.changed > 0 or o.name == "dr-grpo")
]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, objective in zip(axes, ("entropy", "reward"), strict=True):
    part = tried[tried["objective"] == objective]
    for grpo, label in ((False, "all others"), (True, "GRPO")):
        own = part[(part["name"] == "grpo") == grpo]
        ax.errorbar(
            own["gain"],
            own["observed_gain"],
            yerr=1.96 * own["observed_gain_se"],
            fmt="o",
            ms=3,
            lw=0.6,
            label=label,
        )
    own = [o for o in taken if o.objective == objective and o.name != "grpo"]
    fit = agreement(own)
    ax.set_title(f"{objective}: slope {fit.slope:.2f}, R² {fit.r2:.3f} without GRPO")
    ax.axline((0, 0), slope=1, color="grey", lw=0.8)
    ax.set(xlabel="predicted gain", ylabel="observed gain")
_ = axes[0].legend(frameon=False)
# %% [markdown]
# ## Kept up
#
# Momentum gives a batch a tenth of its step at once and the rest over the steps that follow. A
# loss that is kept up therefore comes to as much as ten times its gain a step, if nothing answers it:

# %%
bonus = tried.query("name == 'entropy-bonus' and objective == 'entropy'")
bonus = bonus[bonus["batch"] == "recorded"].set_index("checkpoint")
plain = both.query(
    "name == 'dr-grpo' and objective == 'entropy' and batch == 'recorded'"
)
plain = plain.set_index("checkpoint")["observed"]
pd.DataFrame(
    {
        "plain, a step": plain,
        "bonus of 0.01, one step": bonus["observed_gain"],
        "kept up": bonus["observed_gain"] / bonus["share"],
    }
).round(4)

# %% [markdown]
# So one of 0.03 could give back more than plain drains, and [a training](training.py) under it does:
# entropy rises until the policy is lost, within eight steps. One of 0.003 should then have kept a third
# of the draining, and kept nothing that can be seen: the reward's pull answers. The figure is a bound.
#
# ## Does one step foretell a training?
#
# Eleven losses with eight seeds on the tiny policy: gains over plain after one step, ranked with
# gains at the end.

# %%
one = pd.read_parquet(study / "one-step.parquet")
long = pd.read_parquet(study / "long-runs.parquet").set_index(["loss", "seed"])
gain = one[(one["objective"] == "entropy") & (one["loss"] != "dr-grpo")].set_index(
    ["loss", "seed"]
)["predicted"]
end = (
    long["entropy_48"]
    - long["entropy_48"]
    .xs("dr-grpo")
    .reindex(long.index.get_level_values("seed"))
    .to_numpy()
)
rho = [
    spearmanr(gain.xs(s, level="seed"), end.reindex(gain.index).xs(s, level="seed"))[0]
    for s in sorted(gain.index.get_level_values("seed").unique())
]
print(f"entropy: ρ = {np.mean(rho):.2f}, by seed {np.round(rho, 2)}")

# %% [markdown]
# And in size: the gain of one step, at most what it comes to when kept up, and what the trainings
# gained over plain in each of their first 24 steps.

# %%
share = 0.1 / (1 - 0.9**9)
means = long["entropy_24"].groupby("loss").mean()
one_step = gain.groupby("loss").mean()
pd.DataFrame(
    {
        "one step": one_step,
        "kept up, at most": one_step / share,
        "a step of the training": (means - means["dr-grpo"]) / 24,
    }
).round(4)
