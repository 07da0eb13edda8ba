"""Losses of slime: `policy_loss_function` with its own mean over samples."""

from pathlib import Path
from types import SimpleNamespace
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

DISTRIBUTION = "slime"
_LOSS = "slime.backends.megatron_utils.loss"

_DEFAULTS = {
    "advantage_estimator": "grpo",
    "eps_clip_c": None,
    "entropy_coef": 0.0,
    "use_kl_loss": False,
    "kl_loss_coef": 0.0,
    "kl_loss_type": "k1",
    "use_unbiased_kl": False,
    "use_tis": False,
    "tis_clip": 2.0,
    "tis_clip_low": 0.0,
    "custom_tis_function_path": None,
    "get_mismatch_metrics": False,
    "use_opsm": False,
    "use_rollout_logprobs": False,
    "calculate_per_token_loss": True,
}
"""Its command line's defaults, but for the loss per token in place of per sample."""


def _clip(s: Settings, **more: Any) -> Config:
    return {"eps_clip": s["low"], "eps_clip_high": s["high"], **more}


_ICEPOP = f"{_LOSS}.icepop_function"

CONFIGS = {
    "dr-grpo": _clip,
    "clip-higher": _clip,
    "grpo": lambda s: _clip(s, calculate_per_token_loss=False),
    "gspo": lambda s: _clip(s, advantage_estimator="gspo"),
    "cispo": lambda s: _clip(s, advantage_estimator="cispo"),
    "tis": lambda s: _clip(s, use_tis=True, tis_clip=s["cap"]),
    "icepop": lambda s: _clip(
        s,
        use_tis=True,
        tis_clip=s["most"],
        tis_clip_low=s["least"],
        custom_tis_function_path=_ICEPOP,
    ),
    "entropy-bonus": lambda s: _clip(s, entropy_coef=s["alpha"]),
    "kl-reference": lambda s: _clip(
        s, use_kl_loss=True, kl_loss_coef=s["beta"], kl_loss_type=f"k{int(s['form'])}"
    ),
}
FLOAT32 = {"kl-reference": "the KL estimate casts log-probs to float32"}


def prepare(site: Path) -> None:
    """Import the loss, which is Megatron's in one process."""
    without("megatron", "ray", "sglang", "httpx", "wandb", "numba")
    packages = ("slime", "slime.backends", "slime.backends.megatron_utils")
    without_init([site], *packages, "slime.utils")
    module = imported(_LOSS)
    # One process: no context is divided.
    parallel: Any = SimpleNamespace(get_context_parallel_world_size=lambda: 1)
    for name in (_LOSS, "slime.backends.megatron_utils.cp_utils"):
        imported(name).mpu = parallel
    module.all_gather_with_cp = lambda table, *_: table
    # The loss takes both tables from logits, which are a pair of lists here.
    module.get_log_probs_and_entropy = lambda logits, **_: (None, logits)
    module.get_rollout_top_p_logprob_kwargs = lambda *_: {}


def loss(config: Config, part: Part) -> Tensor:
    """Return slime's loss of a micro-batch; Megatron divides it by the batch."""
    module = imported(_LOSS)
    arguments = SimpleNamespace(**_DEFAULTS | config)

    def packed(table: Tensor) -> list[Tensor]:
        return [row[kept] for row, kept in zip(table, part.mask, strict=True)]

    lengths = part.mask.sum(dim=1).tolist()
    masks = packed(part.mask.double())
    batch = {
        "advantages": packed(part.A),
        "log_probs": packed(part.S_old),
        "rollout_log_probs": packed(part.S_engine),
        "ref_log_probs": packed(part.S_ref),
        "response_lengths": lengths,
        "total_lengths": lengths,
        "loss_masks": masks,
        "unconcat_tokens": None,
        "rollout_mask_sums": [m.sum() for m in masks],
    }
    mean = module.get_sum_of_sample_mean(
        lengths, lengths, masks, None, arguments.calculate_per_token_loss
    )
    H = with_gradient_of(_entropy, part.H)
    scores = {"log_probs": packed(part.S), "entropy": packed(H)}
    found, _ = module.policy_loss_function(arguments, batch, scores, mean)
    assert isinstance(found, Tensor)
    per_token = arguments.calculate_per_token_loss
    return found / (part.tokens if per_token else part.responses)


def _entropy(logits: Tensor) -> Tensor:
    """Return the entropy as its model computes it."""
    utils = imported("slime.utils.ppo_utils")
    token = torch.zeros(len(logits), dtype=torch.long)
    _, entropy = utils.calculate_log_probs_and_entropy(logits, token, None, True)
    assert isinstance(entropy, Tensor)
    return entropy
