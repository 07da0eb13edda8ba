"""Losses of NeMo-RL: `ClippedPGLossFn`."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without, without_init
from entrometer.conformance.adaptors.adaptor import Config, Part, Settings

DISTRIBUTION = "nemo-rl"
_LOSS = "nemo_rl.algorithms.loss.loss_functions"


def _clip(s: Settings, **more: Any) -> Config:
    return {
        "ratio_clip_min": s["low"],
        "ratio_clip_max": s["high"],
        "reference_policy_kl_penalty": 0.0,
        **more,
    }


def _engine(s: Settings, kind: str, high: float, low: float | None = None) -> Config:
    return _clip(
        s,
        use_importance_sampling_correction=True,
        truncated_importance_sampling_type=kind,
        truncated_importance_sampling_ratio=high,
        truncated_importance_sampling_ratio_min=low,
    )


CONFIGS = {
    "dr-grpo": _clip,
    "clip-higher": _clip,
    "gspo": lambda s: _clip(
        s, sequence_level_importance_ratios=True, token_level_loss=False
    ),
    "cispo": lambda s: _clip(s, use_cispo=True),
    "tis": lambda s: _engine(s, "tis", s["cap"]),
    "icepop": lambda s: _engine(s, "icepop", s["most"], s["least"]),
    "grpo": lambda s: _clip(s, token_level_loss=False),
    "kl-reference": lambda s: _clip(
        s,
        reference_policy_kl_penalty=s["beta"],
        reference_policy_kl_type=f"k{int(s['form'])}",
    ),
}
FLOAT32: dict[str, str] = {}


def prepare(site: Path) -> None:
    """Import the loss without models, servers and data."""
    without(
        *("nemo_rl.models.policy", "nemo_rl.models.generation", "nemo_rl.data"),
        *("nemo_rl.utils", "nemo_rl.models.dtensor", "nemo_rl.algorithms.x_token"),
        *("nemo_rl.distributed.worker_group_utils", "nemo_rl.distributed.model_utils"),
    )
    packages = ("nemo_rl", "nemo_rl.algorithms", "nemo_rl.algorithms.loss")
    without_init([site], *packages, "nemo_rl.distributed", "nemo_rl.models")
    imported(_LOSS)


def loss(config: Config, part: Part) -> Tensor:
    """Return NeMo-RL's loss of a micro-batch."""
    module = imported(_LOSS)
    function = module.ClippedPGLossFn(module.ClippedPGLossConfig(**config))

    def shifted(table: Tensor) -> Tensor:
        """Return a table that starts with the prompt's token, which the loss drops."""
        return torch.cat([torch.zeros_like(table[:, :1]), table], dim=1)

    data = {
        "token_mask": shifted(part.mask.double()),
        "sample_mask": torch.ones(len(part.S), dtype=torch.float64),
        "advantages": shifted(part.A),
        "prev_logprobs": shifted(part.S_old),
        "generation_logprobs": shifted(part.S_engine),
        "reference_policy_logprobs": shifted(part.S_ref),
    }
    found, _ = function(
        part.S,
        data,
        global_valid_seqs=torch.tensor(part.responses),
        global_valid_toks=torch.tensor(part.tokens),
    )
    assert isinstance(found, Tensor)
    return found
