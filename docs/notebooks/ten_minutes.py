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
# A policy so small that a laptop trains it in a minute: what does one of its steps do to its
# entropy, because of which tokens, and what would a remedy change? No download, no account, no
# GPU.
#
# ## A training
#
# The command line is a function too. Eight steps of Dr-GRPO on sums, after some imitation that
# teaches the format; every fourth step leaves a checkpoint with its AdamW, and every step the
# batch that it was made from.

# %% tags=["remove-cell"]
# A library of the trainer's asks for widgets that these pages do not have.
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
# What each step logged is a table. Entropy is in nats a token.

# %%
em.read(twin).frame("metrics")[["step", "reward", "entropy/token", "grad_norm"]]

# %% [markdown]
# ## What does the next step do to entropy?
#
# The step that training took after checkpoint 4, taken again at several learning rates. On the
# same samples: the change that is really there, and its prediction from the slope along the
# update.

# %%
step = em.measure(
    twin / "checkpoint-4", run=runs / "step", prompts=128, updates=["recorded"]
)
step

# %%
changes = step.frame("changes")
told = changes.query("weighting == 'per_decision' and per == 'token'")
told[["eta", "observed", "observed_low", "observed_high", "linear", "linear_se"]]

# %%
step.figures["change"]

# %% [markdown]
# Where the two curves part, the learning rate has left the linear regime. `error` in the same
# table is their difference, known far better than either, since the noise of the samples is in
# both.
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
# A negative influence drains. The report colours every response by it; below is the page that
# `entrometer influence` writes.

# %%
which.page(height=640)

# %% [markdown]
# ## Which remedy?
#
# What one step under other losses would do, against plain Dr-GRPO, each predicted from the same
# measurement of influence and then really taken.

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
# Read the last sentences first: what is within noise is said to be. A batch is a part of its step
# and momentum the rest, so a loss that is kept up does more a step than this one step shows.
#
# ## From here
#
# - Your own checkpoint: [my run collapses, what now](../how-to/collapse.md).
# - What the numbers are: [theory](../theory/index.md). What they were on a real training:
#   [the studies](studies.md).
# - All settings: `entrometer VERB --help`, or [the command line](../command-line.md).
