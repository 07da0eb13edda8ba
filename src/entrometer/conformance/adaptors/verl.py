"""Losses of verl: `ppo_loss`, with the config lines that our registry prints."""

from ast import literal_eval
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without
from entrometer.conformance.adaptors.adaptor import (
    Config,
    Part,
    Settings,
    with_gradient_of,
)

DISTRIBUTION = "verl"

_PLAIN = (
    "algorithm.norm_adv_by_std_in_grpo=False "
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
    "actor_rollout_ref.actor.clip_ratio_low={low} "
    "actor_rollout_ref.actor.clip_ratio_high={high} "
)
_IS = "algorithm.rollout_correction.rollout_is=token "

#: Losses that the registry has no line for.
LINES = {
    "icepop": _PLAIN
    + _IS
    + "algorithm.rollout_correction.rollout_is_threshold={least}_{most}",
    "kl-reference": _PLAIN
    + "actor_rollout_ref.actor.use_kl_loss=True "
    + "actor_rollout_ref.actor.kl_loss_coef={beta} "
    + "actor_rollout_ref.actor.kl_loss_type=k{form}",
}
CONFIGS: dict[str, Any] = {}
FLOAT32: dict[str, str] = {}
_SECTIONS = {
    "actor_rollout_ref.actor": "actor",
    "actor_rollout_ref.actor.policy_loss": "policy_loss",
    "algorithm": "algorithm",
    "algorithm.rollout_correction": "rollout_correction",
}


def config_of_line(line: str, settings: Settings) -> Config:
    """Return the settings of a config line as a dictionary per section."""
    config: Config = {section: {} for section in _SECTIONS.values()}
    for pair in line.format(**settings).split():
        key, _, text = pair.partition("=")
        value: Any = text
        # A name stays a name; `0.5_5.0` is a pair of thresholds and not a number.
        if "_" not in text:
            with suppress(ValueError, SyntaxError):
                value = literal_eval(text)
        section, _, name = key.rpartition(".")
        config[_SECTIONS[section]][name] = value
    return config


def prepare(site: Path) -> None:
    """Import verl; `ray` is only in its annotations."""
    del site
    without("ray")
    losses = imported("verl.workers.utils.losses")
    # Its tables are taken out of packed rows; ours are tables already.
    losses.no_padding_2_padding = lambda table, data: table


def loss(config: Config, part: Part) -> Tensor:
    """Return verl's loss of a micro-batch, as its workers accumulate it."""
    losses = imported("verl.workers.utils.losses")
    workers = imported("verl.workers.config")
    policy_loss = workers.PolicyLossConfig(**config["policy_loss"])
    actor = workers.ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        **config["actor"],
        policy_loss=policy_loss,
    )
    tables = {
        "response_mask": part.mask,
        "old_log_probs": part.S_old,
        "advantages": advantages(config["algorithm"], part),
        "ref_log_prob": part.S_ref,
    }
    correction = config["rollout_correction"]
    if correction:
        tables["rollout_is_weights"] = weights(correction, part)
    totals = {"batch_num_tokens": part.tokens, "global_batch_size": part.responses}
    tensordict = imported("verl.utils.tensordict_utils")
    data = tensordict.get_tensordict(tables, {"dp_size": 1, **totals})
    entropy = imported("verl.utils.torch_functional").entropy_from_logits
    H = with_gradient_of(entropy, part.H)
    found, _ = losses.ppo_loss(actor, {"log_probs": part.S, "entropy": H}, data)
    assert isinstance(found, Tensor)
    return found


def advantages(algorithm: Config, part: Part) -> Tensor:
    """Return verl's advantages of the rewards of the whole batch, in these rows."""
    core = imported("verl.trainer.ppo.core_algos")
    name = algorithm.get("adv_estimator", "grpo")
    # Rewards count at the last token.
    rewards = torch.zeros_like(part.whole["A"])
    rewards[:, :1] = part.rewards
    by_std = algorithm["norm_adv_by_std_in_grpo"]
    index = part.whole["group"].numpy()
    estimator = core.get_adv_estimator_fn(name)
    more: dict[str, Any] = {"norm_adv_by_std_in_grpo": by_std}
    if name == "grpo_passk":
        config = imported("verl.trainer.config").AlgoConfig(**algorithm)
        more = {"config": config}
    found, _ = estimator(
        token_level_rewards=rewards,
        response_mask=part.whole["mask"].double(),
        index=index,
        **more,
    )
    assert isinstance(found, Tensor)
    return found[part.rows]


def weights(correction: Config, part: Part) -> Tensor:
    """Return verl's weights for the engine that sampled."""
    helper = imported("verl.trainer.ppo.rollout_corr_helper")
    found, _ = helper.compute_rollout_correction_weights(
        part.S_old - part.S_engine, part.mask, **correction
    )
    assert isinstance(found, Tensor)
    return found
