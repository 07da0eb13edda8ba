"""Losses of OpenRLHF: `PolicyLoss`, the KL and the entropy as its trainer adds them."""

from pathlib import Path
from typing import Any

from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without, without_init
from entrometer.conformance.adaptors.adaptor import (
    Config,
    Part,
    Settings,
    with_gradient_of,
)

DISTRIBUTION = "openrlhf"
_FILES = "openrlhf.models.loss", "openrlhf.models.utils"


def _clip(s: Settings, **more: Any) -> Config:
    return {"clip_eps_low": s["low"], "clip_eps_high": s["high"], **more}


def _engine(s: Settings, level: str, mode: str, low: float, high: float) -> Config:
    return _clip(
        s,
        is_correction_level=level,
        is_correction_mode=mode,
        is_correction_threshold=(low, high),
    )


CONFIGS = {
    "dr-grpo": _clip,
    "clip-higher": _clip,
    "grpo": lambda s: _clip(s, token_level_loss=False),
    "gspo": lambda s: _clip(s, policy_loss_type="gspo"),
    "tis": lambda s: _engine(s, "token", "clip", 0.0, s["cap"]),
    "icepop": lambda s: _engine(s, "token", "mask", s["least"], s["most"]),
    "kl-reference": lambda s: _clip(s, kl=f"k{int(s['form'])}", kl_coef=s["beta"]),
    "entropy-bonus": lambda s: _clip(s, entropy_coef=s["alpha"]),
}
FLOAT32 = {"kl-reference": "the KL estimate casts log-probs to float32"}


def prepare(site: Path) -> None:
    """Import the two files that hold the losses, without the rest of the package."""
    without("deepspeed", "flash_attn")
    without_init([site], "openrlhf", "openrlhf.models")
    for name in _FILES:
        imported(name)


def loss(config: Config, part: Part) -> Tensor:
    """Return OpenRLHF's loss of a micro-batch."""
    losses, utils = (imported(name) for name in _FILES)
    totals = {"batch_num_tokens": part.tokens, "global_batch_size": part.responses}
    kl, kl_coef = config.pop("kl", None), config.pop("kl_coef", 0.0)
    entropy_coef = config.pop("entropy_coef", 0.0)
    mask = part.mask.double()
    found = losses.PolicyLoss(**config)(
        part.S,
        part.S_old,
        part.A,
        action_mask=mask,
        rollout_log_probs=part.S_engine,
        **totals,
    )[0]
    # Both are means over tokens, whatever the policy loss is.
    if kl:
        estimate = utils.compute_approx_kl(part.S, part.S_ref, kl_estimator=kl)
        found = found + kl_coef * losses.aggregate_loss(estimate, mask, **totals)
    if entropy_coef:
        H = with_gradient_of(utils.compute_entropy, part.H)
        found = found - entropy_coef * losses.aggregate_loss(H, mask, **totals)
    assert isinstance(found, Tensor)
    return found
