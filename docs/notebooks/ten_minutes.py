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
# # Ten minutes
#
# What does one step of a policy do to its entropy, because of which tokens, and what would a remedy
# change? On a policy so small that a laptop trains it in a minute, without a download, an account or
# a GPU.
#
# ## A training
#
# The command line is a function too. Eight steps of Dr-GRPO on sums, after some imitation that
# teaches the format. Every fourth step leaves a checkpoint with its AdamW state, and every step its
# update batch.

# %% tags=["remove-cell"]
# A library of the trainer warns about widgets that these pages do not have.
import warnings

warnings.filterwarnings("ignore", message="IProgress")

# %%
import tempfile
from pathlib import Path

import torch

import entrometer as em
from entrometer.cli import main

torch.set_num_threads(1)
runs = Path(tempfile.mkdtemp())
twin = runs / "twin"
short = ["--steps", "8", "--save-every", "4", "--predict-every", "0"]
_ = main(["train", "--recipe", "tiny-twin", "--run", str(twin), *short])
# %% [markdown]
# The log of the steps is a table. Entropy is in nats per token.

# %%
em.read(twin).frame("metrics")[["step", "reward", "entropy/token", "grad_norm"]]

# %% [markdown]
# ## What does the next step do to entropy?
#
# The step that training took after checkpoint 4, taken again at several learning rates. On the
# same samples: the observed change, and its prediction from the slope along the update.

# %%
step = em.measure(
    twin / "checkpoint-4", run=runs / "step", prompts=128, updates=["recorded"]
)
step

# %%
changes = step.frame("changes")
chosen = changes.query("weighting == 'per_decision' and per == 'token'")
chosen[["eta", "observed", "observed_low", "observed_high", "linear", "linear_se"]]

# %%
step.figures["change"]

# %% [markdown]
# Where the two curves separate, the learning rate has left the linear regime. `error` in the same
# table is their difference, which is known far better than either, since both have the noise of the
# same samples.
#
# ## Because of which tokens?
#
# Every token of the update has an influence on entropy and one on the expected reward, with a
# standard error, from two passes.

# %%
which = em.influence(twin / "checkpoint-4", run=runs / "which", prompts=64)
tokens = which.frame("tokens")
tokens.sort_values("entropy")[
    ["text", "kind", "advantage", "S", "entropy", "entropy_se", "reward"]
].head(8)

# %% [markdown]
# A negative influence drains entropy. The report colours every response by influence; below is the
# page that `entrometer influence` writes.

# %%
which.page(height=640)

# %% [markdown]
# ## Which remedy?
#
# What one step under other losses does, compared with plain Dr-GRPO, each predicted from the same
# measurement of influence and then taken.

# %%
losses = ["entropy-bonus", "clip-cov", "positive-only", "grpo"]
remedies = em.compare(
    twin / "checkpoint-4",
    run=runs / "remedies",
    prompts=64,
    interventions=losses,
    minibatches=["1/1"],
)
print(remedies)

# %% [markdown]
# Read the last sentences first: they say what is within noise. The batch is only a part of its step
# and momentum is the rest, so a loss that is used at every step does more per step than this one step
# shows.
#
# ## From here
#
# - Your own checkpoint: [my run collapses, what now](../how-to/collapse.md).
# - What the numbers are: [theory](../theory/index.md). What they were on a real training:
#   [the studies](studies.md).
# - All settings: `entrometer VERB --help`, or [the command line](../command-line.md).
