"""Update batches that slime dumps with `--dump-details DIRECTORY`.

`DIRECTORY/train_data/N.pt` has one dict per response with the tensors of its training;
`N` counts rollouts from 0. It is read by its format, version 2. The rollouts themselves
are next to it, in `rollout_data/N.pt`, without what training computed from them.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entrometer.importers.dumped import DumpedResponse, update_from
from entrometer.policy.sources import UnreadableSource, one_line
from entrometer.policy.tensor_files import read_tensors
from entrometer.runs import UpdateBatch

FORMAT = 2  #: Version of slime's training dump that is read.

_TRAINING, _ROLLOUTS = "train_data", "rollout_data"

# Columns that a response must have, and how slime is made to dump each.
_NEEDED = {
    "tokens": "Name a file of `train_data`.",
    "response_lengths": "Name a file of `train_data`.",
    "loss_masks": "Name a file of `train_data`.",
    "advantages": "Train with a policy loss.",
    "log_probs": "Train with a policy loss.",
}


def is_slime_dump(path: Path) -> bool:
    """Return whether a path is a file of slime's dump, or the directory of a dump."""
    parts = (path / _TRAINING, path / _ROLLOUTS)
    return path.suffix == ".pt" or any(part.is_dir() for part in parts)


def read_slime(
    path: Path, *, temperature: float, max_tokens: int | None = None
) -> UpdateBatch:
    """Return the update batch in `train_data/N.pt`.

    By default slime's ratio is to the policy that is updated, hence 1; what the
    inference engine computed is kept as `S_engine`. slime has entropies only of runs
    with `--use-rollout-entropy` that compute log-probabilities in a pass of their own;
    others get NaN. `max_tokens` is the length limit of a response; by default the
    longest response.
    """
    if path.is_dir():
        raise UnreadableSource(
            f"{path}: expected the dump of one step, got a directory. Name one file of "
            f"it: `{_TRAINING}/N.pt`."
        )
    if path.parent.name == _ROLLOUTS:
        raise _rollouts_alone(path)
    content = read_tensors(path, absent="Name slime's `train_data/N.pt`.")
    if "samples" in content and "format_version" not in content:
        raise _rollouts_alone(path)
    try:
        responses = _responses(path, content)
        rollout = content["rollout_id"]
        if type(rollout) is not int or not 0 <= rollout < 2**53:
            raise TypeError("expected the number of a rollout")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UnreadableSource):
            raise
        raise UnreadableSource(
            f"{path}: expected a dump of slime's training, version {FORMAT} "
            f"({one_line(error)}). Copy the file again."
        ) from error
    return update_from(
        path,
        responses,
        step=rollout + 1,
        temperature=temperature,
        max_tokens=max_tokens,
    )


def _responses(path: Path, content: dict[str, Any]) -> list[DumpedResponse]:
    if content["format_version"] != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got another")
    samples = content["samples"]
    if not samples or not isinstance(samples, list):
        raise TypeError("expected a list of samples")
    for name, remedy in _NEEDED.items():
        if any(name not in sample for sample in samples):
            raise UnreadableSource(
                f"{path}: expected {name} of every response, got none. {remedy}"
            )
    if len({"entropy" in sample for sample in samples}) > 1:
        raise ValueError("expected entropies of all responses or of none")
    if any("rollout_top_p_token_ids" in sample for sample in samples):
        raise UnreadableSource(
            f"{path}: expected log-probabilities of the policy, got those of its "
            "most probable tokens alone. Train with `--rollout-top-p 1`."
        )
    steps = {len(shard["global_batch_sizes"]) for shard in content["dp_shards"]}
    if steps != {1}:
        raise UnreadableSource(
            f"{path}: expected one optimizer step per rollout, got {sorted(steps)}; "
            "the log-probabilities are those before the first. Train with "
            "`--num-steps-per-rollout 1`, or measure with `--updates sampled-1`."
        )
    rewards = content.get("raw_reward")
    responses = [_response(sample, _reward(rewards, sample)) for sample in samples]
    return [r for r in responses if r.counted.any()]


def _response(sample: dict[str, Any], reward: float) -> DumpedResponse:
    length = sample["response_lengths"]
    tokens = _integers(sample["tokens"], below=2**31)
    if type(length) is not int or not 0 <= length < tokens.size:
        raise ValueError("expected a response after a prompt")
    begin = tokens.size - length

    def column(name: str) -> np.ndarray:
        return _numbers(name, sample[name], length)

    S = column("log_probs")
    counted = _integers(sample["loss_masks"], below=2)
    if counted.size != length:
        raise ValueError(f"expected {length} numbers in loss_masks, got {counted.size}")
    engine = "rollout_log_probs"
    return DumpedResponse(
        prompt=tokens[:begin],
        response=tokens[begin:],
        counted=counted.astype(bool),
        reward=reward,
        advantage=column("advantages"),
        S=S,
        S_old=S,
        H=column("entropy") if "entropy" in sample else np.full_like(S, np.nan),
        S_engine=column(engine) if sample.get(engine) is not None else None,
    )


def _integers(value: Any, *, below: int) -> np.ndarray:
    flat = _flat(value)
    if flat.dtype.is_floating_point or ((flat < 0) | (flat >= below)).any():
        raise ValueError(f"expected whole numbers from 0, below {below}")
    return flat.to(torch.int32).numpy()


def _numbers(name: str, value: Any, length: int) -> np.ndarray:
    flat = _flat(value)
    if flat.numel() != length:
        raise ValueError(f"expected {length} numbers in {name}, got {flat.numel()}")
    return flat.to(torch.float32).numpy()


def _flat(value: Any) -> Tensor:
    flat = value if type(value) is Tensor else torch.empty(())
    plain = (flat.dim(), flat.layout, flat.device.type) == (1, torch.strided, "cpu")
    if not plain or flat.is_complex():
        raise TypeError("expected a flat tensor for each column")
    # A copy: the file may be deleted while the batch is in use.
    return flat.detach().clone()


def _reward(rewards: Any, sample: dict[str, Any]) -> float:
    # The rewards of all rollouts, before slime subtracts the mean of a group.
    value = sample.get("rewards")
    if rewards is not None:
        place = sample["rollout_position"]
        if not isinstance(rewards, list) or type(place) is not int or place < 0:
            raise TypeError("expected a list of rewards, and the place of each sample")
        value = rewards[place]
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise TypeError("expected a number as reward: train with `--reward-key`")
    return float(value)


def _rollouts_alone(path: Path) -> UnreadableSource:
    return UnreadableSource(
        f"{path}: expected advantages, log-probabilities and entropies of the policy, "
        "got slime's rollouts alone, which training had not seen yet. Name "
        f"`{_TRAINING}/{path.name}`, which `--dump-details` writes too."
    )
