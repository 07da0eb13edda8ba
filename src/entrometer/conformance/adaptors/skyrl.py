"""Losses of SkyRL: its registered losses, KL and entropy added as its worker does."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without, without_init
from entrometer.conformance.adaptors.adaptor import (
    Config,
    Part,
    Settings,
    with_gradient_of,
)

DISTRIBUTION = "skyrl"
_LOSSES = "skyrl.backends.skyrl_train.utils.ppo_utils"
_CONFIG = "skyrl.train.config.config"
_PACKAGES = (
    *("skyrl", "skyrl.train", "skyrl.train.config", "skyrl.backends"),
    *("skyrl.backends.skyrl_train", "skyrl.backends.skyrl_train.utils"),
)


def _of(name: str, s: Settings, **more: Any) -> Config:
    clip = {f"eps_clip_{k}": s[k] for k in ("low", "high") if k in s}
    return {
        "policy_loss_type": name,
        "loss_reduction": "seq_mean_token_sum_norm",
        **clip,
        **more,
    }


def _engine(s: Settings, **more: Any) -> Config:
    return _of("regular", s, off_policy_correction=more)


CONFIGS = {
    "dr-grpo": lambda s: _of("regular", s),
    "clip-higher": lambda s: _of("regular", s),
    "grpo": lambda s: _of("regular", s, loss_reduction="sequence_mean", by_std=True),
    "gspo": lambda s: _of("gspo", s),
    "sapo": lambda s: _of(
        "sapo", s, sapo={"tau_pos": s["tau_positive"], "tau_neg": s["tau_negative"]}
    ),
    "cispo": lambda s: _of(
        "cispo",
        s,
        cispo={"cispo_eps_clip_low": s["low"], "cispo_eps_clip_high": s["high"]},
    ),
    "dppo": lambda s: _of(
        "dppo", s, dppo={"delta_low": s["low"], "delta_high": s["high"]}
    ),
    "clip-cov": lambda s: _of(
        "clip_cov",
        s,
        clip_cov={
            "clip_ratio": s["rho"],
            "clip_cov_lb": s["lower"],
            "clip_cov_ub": s["upper"],
        },
    ),
    "kl-cov": lambda s: _of(
        "kl_cov", s, kl_cov={"kl_cov_frac": s["rho"], "ppo_kl_coef": s["beta"]}
    ),
    "tis": lambda s: _engine(
        s, tis_ratio_type="token", token_tis_ratio_clip_high=s["cap"]
    ),
    "entropy-bonus": lambda s: _of(
        "regular", s, use_entropy_loss=True, entropy_loss_coef=s["alpha"]
    ),
    "kl-reference": lambda s: _of(
        "regular",
        s,
        use_kl_loss=True,
        kl_loss_coef=s["beta"],
        kl_estimator_type=f"k{int(s['form'])}",
    ),
}
_CASTS = "the ratio is the exponential of a float32"
FLOAT32 = dict.fromkeys(
    ["dr-grpo", "clip-higher", "grpo", "cispo", "dppo", "tis", "entropy-bonus"], _CASTS
) | {"kl-reference": _CASTS}


def prepare(site: Path) -> None:
    """Import the file of the losses and that of their config."""
    without("skyrl_gym", "ray", "loguru", "omegaconf", "hydra")
    # Its registry asks whether there is a cluster.
    imported("ray").is_initialized = lambda: False
    imported("loguru").logger = logging.getLogger("skyrl")
    without_init([site], *_PACKAGES)
    config = imported(_CONFIG)
    # The losses import the class of their config from its package.
    imported("skyrl.train.config").AlgorithmConfig = config.AlgorithmConfig
    imported(_LOSSES)


def loss(config: Config, part: Part) -> Tensor:
    """Return SkyRL's loss of a micro-batch, as its worker sums it."""
    losses = imported(_LOSSES)
    by_std = config.pop("by_std", False)
    algorithm = _config(config)
    mask = part.mask.double()
    rewards = torch.zeros_like(part.whole["A"])
    rewards[:, :1] = part.rewards
    advantages, _ = losses.compute_grpo_outcome_advantage(
        rewards,
        part.whole["mask"].double(),
        part.whole["group"].numpy(),
        grpo_norm_by_std=by_std,
    )
    # Its trainer divides the advantages, and the losses are sums.
    advantages = losses.apply_loss_reduction_to_advantages_minibatch(
        advantages,
        part.whole["mask"].double(),
        algorithm.loss_reduction,
        len(part.S),
        part.length_limit,
    )[part.rows]
    found, _ = losses.PolicyLossRegistry.get(algorithm.policy_loss_type)(
        part.S,
        part.S_old,
        advantages,
        config=algorithm,
        loss_mask=mask,
        rollout_logprobs=part.S_engine if "off_policy_correction" in config else None,
    )
    if config.get("use_entropy_loss"):
        H = with_gradient_of(partial(_entropy, True), part.H)
        bonus = losses.masked_mean(H, mask) * algorithm.entropy_loss_coef
        found = found - bonus * part.weight
    if config.get("use_kl_loss"):
        kind = algorithm.kl_estimator_type
        kl = losses.compute_approx_kl(part.S, part.S_ref, mask, kind)
        mean = losses.masked_mean(kl, mask, dim=-1).mean()
        found = found + mean * algorithm.kl_loss_coef * part.weight
    assert isinstance(found, Tensor)
    return found


def _entropy(requires_grad: bool, logits: Tensor) -> Tensor:
    """Return the entropy as its model computes it where the loss has a bonus."""
    utils = imported("skyrl.backends.skyrl_train.utils.torch_utils")
    found = utils.chunked_entropy_from_logits(logits[None], requires_grad=requires_grad)
    assert isinstance(found, Tensor)
    return found


def _config(config: Config) -> Any:
    """Return the framework's config, with nested settings as its own classes."""
    defaults = imported(_CONFIG).AlgorithmConfig()
    for name, value in config.items():
        if isinstance(value, dict):
            for key, inner in value.items():
                setattr(getattr(defaults, name), key, inner)
        else:
            setattr(defaults, name, value)
    return defaults
