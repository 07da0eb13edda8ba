"""Sound inputs of every kind, small, from which the hostile ones are made."""

import json
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

from benchmarks.report.synthetic import Shape, measurement, write
from entrometer.policy import load_policy, save_tiny
from entrometer.policy.optimizer_state import decay_groups
from entrometer.runs import (
    UpdateBatch,
    UpdateSettings,
    prompt_name,
    seal,
    update_path,
    write_metrics,
    write_update,
)
from entrometer.training.config import TrainConfig, save_config

STEP = 3


def build(world: Path) -> None:
    """Write a checkpoint of each kind, an update, finished runs, foreign files."""
    full = world / "full" / f"checkpoint-{STEP}"
    save_tiny(full)
    _add_optimizer(full)
    (world / "full" / "updates").mkdir()
    write_update(update_path(world / "full", STEP + 1), update())
    _adapter(full, world / "lora" / f"checkpoint-{STEP}")
    _sharded(full, world / "sharded" / f"checkpoint-{STEP}")
    run = write(world / "measured" / "run", measurement(_SHAPE), _SUMMARY, {"a": 1})
    seal(run, about={"kind": "measure"})
    trained = world / "trained" / "run"
    trained.mkdir(parents=True)
    save_config(TrainConfig(), trained)
    columns = {"step": np.arange(4.0), "loss": np.ones(4), "entropy": np.ones(4)}
    write_metrics(trained / "metrics.parquet", columns)
    _verl(full, world / "verl" / f"global_step_{STEP}" / "actor")
    _deepspeed(full, world / "deepspeed" / f"global_step{STEP}")
    _prime_rl(world / "prime_rl" / f"step_{STEP}")
    _slime(world / "slime" / "train_data")
    _trl(world / "trl" / "completions")


_SHAPE = Shape(checkpoints=("checkpoint-3",), updates=("recorded",), prompts=16)
_SUMMARY = {"title": "Entropy", "sentences": ["It falls."], "warnings": []}


def _add_optimizer(directory: Path) -> None:
    torch.save(optimizer(load_policy(directory).model), directory / "optimizer.pt")
    state = {"global_step": STEP, "max_steps": 8, "log_history": [{"step": 1.0}]}
    (directory / "trainer_state.json").write_text(json.dumps(state))


def optimizer(model: torch.nn.Module) -> dict[str, Any]:
    """The state of AdamW for a model, as a Trainer numbers its parameters."""
    state: dict[int, Any] = {}
    groups = []
    parameters = dict(model.named_parameters())
    for names, decay in zip(decay_groups(model), (0.1, 0.0), strict=True):
        keys = list(range(len(state), len(state) + len(names)))
        for key, name in zip(keys, names, strict=True):
            state[key] = {
                "step": torch.tensor(float(STEP)),
                "exp_avg": torch.full_like(parameters[name], 1e-3).detach(),
                "exp_avg_sq": torch.full_like(parameters[name], 1e-4).detach(),
            }
        groups.append(_group() | {"weight_decay": decay, "params": keys})
    return {"state": state, "param_groups": groups}


def _group() -> dict[str, Any]:
    return {
        "lr": 1e-4,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "amsgrad": False,
        "maximize": False,
    }


def update() -> UpdateBatch:
    """A recorded batch of two prompts with two responses each."""
    count, length = 4, 4
    prompts = [np.array([20, 21, 22 + i // 2], np.int32) for i in range(count)]

    def column(value: float) -> tuple[np.ndarray, ...]:
        return tuple(np.full(length, value, np.float32) for _ in range(count))

    return UpdateBatch(
        row=np.arange(count),
        group=np.array([0, 0, 1, 1]),
        prompt=np.array([prompt_name(p) for p in prompts]),
        prompt_tokens=tuple(prompts),
        response_tokens=tuple(np.full(length, 30 + i, np.int32) for i in range(count)),
        counted=tuple(np.ones(length, bool) for _ in range(count)),
        rewards=np.array([[0.0], [1.0], [0.0], [1.0]], np.float32),
        advantage=tuple(
            np.full(length, (-1.0) ** (i + 1) / 2, np.float32) for i in range(count)
        ),
        S=column(-1.0),
        S_old=column(-1.0),
        H=column(1.0),
        settings=UpdateSettings(
            step=STEP + 1,
            temperature=1.0,
            max_tokens=4,
            rewards=("answer",),
            reward_weights=(1.0,),
        ),
    )


def _adapter(base: Path, directory: Path) -> None:
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(load_policy(base).model, config)
    model.save_pretrained(str(directory))
    path = directory / "adapter_config.json"
    saved = json.loads(path.read_text()) | {"base_model_name_or_path": str(base)}
    path.write_text(json.dumps(saved))
    _add_optimizer(directory)


def _sharded(full: Path, directory: Path) -> None:
    shutil.copytree(full, directory)
    (directory / "model.safetensors").unlink()
    weights = {
        name: p.detach().clone()
        for name, p in load_policy(full).model.named_parameters()
    }
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in shards.items():
        tensors = {name: weights[name] for name in own}
        save_file(tensors, directory / file, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {name: file for file, own in shards.items() for name in own},
    }
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def _verl(full: Path, actor: Path) -> None:
    shutil.copytree(
        full, actor / "huggingface", ignore=shutil.ignore_patterns("optim*", "*.safe*")
    )
    model = load_policy(full).model
    weights = {name: p.detach() for name, p in model.named_parameters()}
    moments = {
        i: {"step": torch.tensor(3.0), "exp_avg": p * 0, "exp_avg_sq": p * 0}
        for i, p in enumerate(weights.values())
    }
    state = {"state": moments, "param_groups": [_group() | {"params": list(moments)}]}
    torch.save(weights, actor / "model_world_size_1_rank_0.pt")
    torch.save(state, actor / "optim_world_size_1_rank_0.pt")


def _deepspeed(full: Path, directory: Path) -> None:
    directory.mkdir(parents=True)
    weights = {n: p.detach() for n, p in load_policy(full).model.named_parameters()}
    shapes = OrderedDict((name, p.shape) for name, p in weights.items())
    flat = torch.cat([p.flatten() for p in weights.values()])
    about = {"param_shapes": [shapes], "frozen_param_shapes": None}
    torch.save(about, directory / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    moments = {"step": torch.tensor(3.0), "exp_avg": flat * 0, "exp_avg_sq": flat * 0}
    inner = {"state": {0: moments}, "param_groups": [_group()]}
    held = {"fp32_flat_groups": [flat], "optimizer_state_dict": inner}
    file = directory / "zero_pp_rank_0_mp_rank_00_optim_states.pt"
    torch.save({"optimizer_state_dict": held}, file)


def sequence() -> dict[str, Any]:
    """A line of prime-rl's export."""
    names = ("advantages", "inference_logprobs", "trainer_logprobs", "entropy")
    numbers: dict[str, Any] = {name: [0.0, 0.5, 0.5] for name in names}
    return numbers | {
        "schema_version": 1,
        "step": STEP,
        "token_ids": [5, 6, 7],
        "loss_mask": [False, True, True],
        "rewards": [1.0, 1.0, 1.0],
    }


def _prime_rl(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "rank_0.jsonl").write_text(json.dumps(sequence()) + "\n")


def _slime(directory: Path) -> None:
    directory.mkdir(parents=True)
    numbers = ("advantages", "log_probs", "rollout_log_probs", "entropy")
    samples = [
        {name: torch.full((2,), 0.5) for name in numbers}
        | {
            "rollout_position": place,
            "tokens": torch.tensor([5, 6, 7 + place]),
            "response_lengths": 2,
            "loss_masks": torch.ones(2, dtype=torch.int),
        }
        for place in range(2)
    ]
    content = {
        "format_version": 2,
        "rollout_id": STEP,
        "samples": samples,
        "dp_shards": [{"global_batch_sizes": [2]}],
        "raw_reward": [1.0, 0.0],
    }
    torch.save(content, directory / f"{STEP}.pt")


def _trl(directory: Path) -> None:
    directory.mkdir(parents=True)
    columns = {"step": [STEP], "prompt": ["1 + 1"], "completion": ["2"]}
    table = pa.table(columns | {"reward": [1.0], "advantage": [0.0]})
    pq.write_table(table, directory / f"completions_{STEP:05d}.parquet")
