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
# Nineteen losses at four checkpoints, each predicted by influence and taken (`studies/interventions`),
# and complete trainings under eleven of them.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from entrometer.report.compare.agreement import agreement, gain
from entrometer.runs.rows import read_rows
from entrometer.runs.tables.compare import Outcome

study = Path("../../studies/interventions")
both = pd.concat(
    pd.read_parquet(study / place / "outcomes.parquet").assign(batch=place)
    for place in ("recorded", "stale")
)
tried = both[both["tried"] & (both["changed"] > 0) & (both["name"] != "dr-grpo")]
kept = tried.query("objective == 'entropy' and batch == 'recorded'")
kept.pivot_table("observed_gain", "name", "checkpoint", sort=False).round(4)

# %% [markdown]
# Every figure here is for one update batch per checkpoint: 8 prompts, of which 5, 6, 3 and 3 carry a
# gradient, and 2, 3, 1 and 1 of 4 in a stale minibatch (`python -m studies.signal`). Intervals are over
# evaluation prompts, given that batch.
#
# ## Predicted and taken
#
# Gains over plain Dr-GRPO, in nats per token and in reward per response. One half of the prompts predicts
# and the other observes the step: on the same half, both would share the noise of its prompts. R² has no
# line fitted: 1 is exact, 0 as good as predicting no gain. GRPO's loss is so much larger that AdamW's second
# moment changes within the step. The frontier is left out, because the half that predicts chose its tokens.

# %%
taken = {"entropy": [], "reward": []}
for place in ("recorded", "stale"):
    rows = read_rows(study / place / "outcomes.parquet", Outcome)
    base = {(o.checkpoint, o.objective): o for o in rows if o.name == "dr-grpo"}
    for o in rows:
        if o.tried and o.changed > 0 and not o.chosen:
            pair = gain(o, base[o.checkpoint, o.objective])
            taken[o.objective].append((o.name, pair))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, (objective, pairs) in zip(axes, taken.items(), strict=True):
    for grpo, label in ((False, "all others"), (True, "GRPO")):
        own = [pair for name, pair in pairs if (name == "grpo") == grpo]
        x, y = ([side.value for side in sides] for sides in zip(*own, strict=True))
        arms = [pair.observed.high - pair.observed.value for pair in own]
        ax.errorbar(x, y, yerr=arms, fmt="o", ms=3, lw=0.6, label=label)
    whole = agreement([pair for _, pair in pairs]).r2
    others = agreement([pair for name, pair in pairs if name != "grpo"]).r2
    ax.set_title(f"{objective}: R² {whole:.2f}, without GRPO {others:.2f}")
    ax.axline((0, 0), slope=1, color="grey", lw=0.8)
    ax.set(xlabel="predicted by one half", ylabel="observed on the other half")
_ = axes[0].legend(frameon=False, loc="upper left")

# %% [markdown]
# Does the prediction rank the losses? Spearman's ρ by checkpoint, again across halves (with the frontier, as
# in the study's table):

# %%
key = ["batch", "checkpoint", "objective"]
plains = both[both["name"] == "dr-grpo"].set_index(key)["elsewhere"]
ranked = tried.join(plains.rename("plain"), on=key)
ranked["predicted by the other half"] = ranked["elsewhere"] - ranked["plain"]
ranked.groupby(key, sort=False)[["predicted by the other half", "observed_gain"]].apply(
    lambda part: spearmanr(*part.to_numpy().T).statistic
).unstack("checkpoint").round(2)

# %% [markdown]
# ## Used at every step
#
# AdamW takes a tenth of each step from the current batch; the rest of a batch's effect comes through
# momentum in the following steps. The gain of a loss that is used at every step can therefore amount to
# ten times its one-step gain per step, if nothing counteracts it:

# %%
bonus = tried.query("name == 'entropy-bonus' and objective == 'entropy'")
bonus = bonus[bonus["batch"] == "recorded"].set_index("checkpoint")
plain = both.query(
    "name == 'dr-grpo' and objective == 'entropy' and batch == 'recorded'"
)
plain = plain.set_index("checkpoint")["observed"]
pd.DataFrame(
    {
        "plain, per step": plain,
        "bonus of 0.01, one step": bonus["observed_gain"],
        "used at every step": bonus["observed_gain"] / bonus["share"],
    }
).round(4)

# %% [markdown]
# So a bonus of 0.03 could return more than plain drains, and in [one training](training.py) under it entropy
# rose until the policy was lost, within eight steps. A bonus of 0.003 would keep a third of the draining; in
# its one training entropy was no higher than in the one plain training. How far two plain trainings differ
# was not measured, so neither shows what such a bonus keeps (`python -m studies.long_run_tables`).
#
# ## Does one step predict a training?
#
# Ten losses and plain with eight seeds on the tiny policy: gains over plain after one step, ranked with
# gains at the end. With the losses as units the 95% interval of the mean ρ is [0.08, 0.78] (losses resampled
# with replacement; `python -m studies.long_run_tables`).

# %%
one = pd.read_parquet(study / "one-step.parquet")
long = pd.read_parquet(study / "long-runs.parquet").set_index(["loss", "seed"])
first = one[(one["objective"] == "entropy") & (one["loss"] != "dr-grpo")].set_index(
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
    spearmanr(first.xs(s, level="seed"), end.reindex(first.index).xs(s, level="seed"))[
        0
    ]
    for s in sorted(first.index.get_level_values("seed").unique())
]
print(f"entropy: ρ = {np.mean(rho):.2f}, by seed {np.round(rho, 2)}")

# %% [markdown]
# And in size: the gain of one step, the most that it can amount to if the loss is used at every step,
# and what the trainings gained over plain in each of their first 24 steps.

# %%
share = 0.1 / (1 - 0.9**9)
means = long["entropy_24"].groupby("loss").mean()
one_step = first.groupby("loss").mean()
pd.DataFrame(
    {
        "one step": one_step,
        "used at every step, at most": one_step / share,
        "per step of the training": (means - means["dr-grpo"]) / 24,
    }
).round(4)
