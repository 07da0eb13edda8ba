"""Losses of torchtitan's reinforcement learning: `DAPOLoss`."""

from pathlib import Path

import torch
from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without, without_init
from entrometer.conformance.adaptors.adaptor import Config, Part, Settings

DISTRIBUTION = "torchtitan"
_LOSS = "torchtitan.experiments.rl.losses.dapo"


def _clip(s: Settings) -> Config:
    return {"ratio_clip_low": s["low"], "ratio_clip_high": s["high"]}


CONFIGS = {"dr-grpo": _clip, "clip-higher": _clip}
FLOAT32: dict[str, str] = {}


def prepare(site: Path) -> None:
    """Import the loss, which takes log-probs and entropies from logits."""
    without("spmd_types")
    without_init([site], "torchtitan.experiments", "torchtitan.experiments.rl")
    module = imported(_LOSS)
    # Its logits are a pair of tables here: the float32 cast of logits is not compared.
    module.compute_logprobs = lambda logits, labels, **_: logits


def loss(config: Config, part: Part) -> Tensor:
    """Return torchtitan's loss of a micro-batch."""
    kind = imported(_LOSS).DAPOLoss
    found, _ = kind(kind.Config(**config))(
        (part.S, part.H.detach()),
        torch.zeros_like(part.mask, dtype=torch.long),
        part.tokens,
        generator_logprobs=part.S_old,
        advantages=part.A,
        loss_mask=part.mask,
    )
    assert isinstance(found, Tensor)
    return found
