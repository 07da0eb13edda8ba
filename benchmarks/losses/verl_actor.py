"""A process of a training by verl's own actor worker, on the CPU, while it is watched.

Usage: python verl_actor.py VERL_SITE CASE MODEL OUT RANK WORLD. CASE is JSON: settings
of verl's actor, and of this training. Writes what `watch_verl` records, a checkpoint of
verl before each optimizer step, and what the actor itself did at each step.
"""

import json
import os
import sys
import types
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

GROUP, PROMPTS, WIDTH, LIMIT = 4, 4, 7, 24
"""Responses per prompt, prompts, and the padded lengths of prompts and responses."""
RATE = 1e-2
"""Large: ratios are away from 1, and a step is far above its rounding."""


MEMORY = (
    *("memory_allocated", "max_memory_allocated"),
    *("memory_reserved", "max_memory_reserved"),
)


def platform() -> None:
    """Register the CPU with verl, which knows accelerators only."""
    from verl.plugin.platform.platform_cuda import PlatformCUDA
    from verl.plugin.platform.platform_manager import set_platform

    class Cpu(PlatformCUDA):  # type: ignore[misc]
        device_name = "cpu"
        vendor_name = "cpu"
        # verl logs the memory of the device.
        device_module = types.SimpleNamespace(
            **{name: lambda *_: 0 for name in MEMORY},
            mem_get_info=lambda *_: (0, 0),
            synchronize=lambda *_: None,
            empty_cache=lambda: None,
            is_available=lambda: False,
            get_device_name=lambda: "CPU",
        )

        def current_device(self) -> torch.device:
            return torch.device("cpu")

        def is_available(self) -> bool:
            return True

        def communication_backend_name(self) -> str:
            return "gloo"

        def empty_cache(self) -> None:
            pass

    set_platform(Cpu())
    # verl chooses an engine by its device, and registers that of FSDP for GPUs.
    os.environ["VERL_ENGINE_DEVICE"] = "cuda"
    from torch.distributed.fsdp import _init_utils
    from verl.models.transformers import monkey_patch

    # FSDP1 refuses to broadcast the weights of CPUs at the start, as verl has it do.
    check = "_check_module_states_for_sync_module_states"
    setattr(_init_utils, check, lambda module_states: None)
    # Of TRL, verl patches a class of value models, which this version does not have.
    monkey_patch.is_trl_available = lambda: False


def make_worker(model: str, case: dict[str, Any]) -> Any:
    """Make verl's worker with an actor."""
    from omegaconf import OmegaConf
    from verl.single_controller.base import Worker
    from verl.trainer.config import CheckpointConfig
    from verl.trainer.distillation import distillation_ppo_loss
    from verl.workers.config import (
        FSDPActorConfig,
        FSDPEngineConfig,
        FSDPOptimizerConfig,
        HFModelConfig,
        PolicyLossConfig,
        TrainingWorkerConfig,
    )
    from verl.workers.engine_workers import ActorRolloutRefWorker
    from verl.workers.utils.losses import ppo_loss

    strategy = case.get("strategy", "fsdp2")
    precision = dict.fromkeys(("param_dtype", "reduce_dtype"), "fp32")
    engine = FSDPEngineConfig(
        strategy=strategy,
        mixed_precision=precision | {"buffer_dtype": "fp32"},
        use_orig_params=True,
        use_torch_compile=False,
        use_dynamic_bsz="dynamic" in case,
        max_token_len_per_gpu=case.get("dynamic"),
        infer_max_token_len_per_gpu=case.get("dynamic"),
        micro_batch_size_per_gpu=case.get("micro", 4),
        infer_micro_batch_size_per_gpu=4,
    )
    config = FSDPActorConfig(
        strategy=strategy,
        rollout_n=GROUP,
        ppo_micro_batch_size_per_gpu=case.get("micro", 4),
        policy_loss=PolicyLossConfig(**case.get("policy_loss", {})),
        fsdp_config=engine,
        **case.get("actor", {}),
    )
    settings = TrainingWorkerConfig(
        model_type="language_model",
        model_config=HFModelConfig(
            path=model,
            use_remove_padding=case.get("packed", False),
            enable_gradient_checkpointing=False,
            external_lib=case.get("external_lib"),
            override_config={"attn_implementation": "eager"} | case.get("config", {}),
            **case.get("model", {}),
        ),
        engine_config=engine,
        optimizer_config=FSDPOptimizerConfig(
            lr=RATE,
            optimizer=case.get("optimizer", "AdamW"),
            weight_decay=0.01,
            clip_grad=case.get("clip_grad", 1.0),
            total_training_steps=100,
            lr_warmup_steps=0,
        ),
        checkpoint_config=CheckpointConfig(),
    )
    # What follows is what `init_model` does, whose own reading of configs needs hydra.
    worker = ActorRolloutRefWorker.__new__(ActorRolloutRefWorker)
    Worker.__init__(worker)
    rollout = {"response_length": LIMIT, "temperature": case.get("temperature", 0.8)}
    worker.config = OmegaConf.create({"rollout": rollout})
    worker.actor = worker.actor_worker_cls(settings)
    worker.actor.reset()
    loss = distillation_ppo_loss if case.get("distillation") else ppo_loss
    worker.actor.set_loss_fn(partial(loss, config=config))
    worker.set_dispatch_collect("actor", **worker.actor.get_dispatch_collect())
    return worker


def rollouts(case: dict[str, Any], vocabulary: int) -> Any:
    """Return responses with rewards, as verl's trainer has them before an update."""
    from verl import DataProto
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    generator = np.random.default_rng(case.get("seed", 0))
    count = GROUP * PROMPTS
    prompt_length = np.repeat(generator.integers(2, WIDTH + 1, PROMPTS), GROUP)
    length = generator.integers(3, LIMIT + 1, count)
    tokens = generator.integers(3, vocabulary, (PROMPTS, WIDTH)).repeat(GROUP, axis=0)
    prompts = torch.tensor(tokens)
    responses = torch.tensor(generator.integers(3, vocabulary, (count, LIMIT)))
    # Prompts are padded on the left, responses on the right.
    before = torch.arange(WIDTH) >= WIDTH - torch.tensor(prompt_length)[:, None]
    mask = torch.arange(LIMIT) < torch.tensor(length)[:, None]
    attention = torch.cat([before, mask], dim=1).long()
    # The output of a tool, which the policy did not write.
    counted = mask & (torch.arange(LIMIT) != 1)
    scores = torch.zeros(count, LIMIT)
    last = torch.tensor(length)[:, None] - 1
    scores.scatter_(1, last, torch.tensor(generator.random((count, 1))).float())
    uid = np.array([f"prompt {i // GROUP}" for i in range(count)], dtype=object)
    advantages, _ = compute_grpo_outcome_advantage(scores, counted.float(), uid)
    return DataProto.from_dict(
        tensors={
            "prompts": prompts * before,
            "responses": responses * mask,
            "input_ids": torch.cat([prompts * before, responses * mask], dim=1),
            "attention_mask": attention,
            "position_ids": (attention.cumsum(dim=1) - 1).clamp(min=0),
            "response_mask": counted.long(),
            "token_level_scores": scores,
            "advantages": advantages,
        },
        non_tensors={"uid": uid},
        meta_info={"temperature": case.get("temperature", 0.8)},
    )


def update(worker: Any, batch: Any, case: dict[str, Any], world: int) -> None:
    """Compute log-probabilities and update the actor, as verl's trainer does."""
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding

    # Each process has a part of the batch.
    batch = batch.chunk(world)[dist.get_rank()]
    data = left_right_2_no_padding(batch.to_tensordict())
    tu.assign_non_tensor(data, calculate_entropy=False, compute_loss=False)
    output = worker.infer_batch(data)
    S = no_padding_2_padding(tu.get(output, "log_probs"), data)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    noise = torch.randn(2, *S.shape, generator=generator)
    batch.batch["old_log_probs"] = S
    batch.batch["ref_log_prob"] = S + 0.3 * noise[0]
    batch.batch["rollout_log_probs"] = S + 1e-3 * noise[1]
    data = left_right_2_no_padding(batch.to_tensordict())
    if case.get("nested"):
        data = nested(data)
    config = worker.loss_fn.keywords["config"]
    tu.assign_non_tensor(
        data,
        calculate_entropy=config.calculate_entropy or config.entropy_coeff != 0.0,
        global_batch_size=case.get("mini", GROUP * PROMPTS),
        mini_batch_size=case.get("mini", GROUP * PROMPTS),
        epochs=config.ppo_epochs,
        seed=config.data_loader_seed,
        dataloader_kwargs={"shuffle": config.shuffle},
        compute_loss=True,
    )
    worker.train_mini_batch(data)


def nested(data: Any) -> Any:
    """Return a batch without padding, as verl's newer trainer has it."""
    from verl.utils import tensordict_utils as tu

    mask = data["attention_mask"].bool()
    tables: dict[str, Any] = {"uid": tu.get(data, "uid")}
    for name, table in data.items():
        if not isinstance(table, Tensor) or name == "attention_mask":
            continue
        kept = mask[:, :WIDTH] if name == "prompts" else mask[:, WIDTH:]
        # Inputs and positions have no padding in either trainer.
        tables[name] = table if table.is_nested else jagged(table, kept)
    return tu.get_tensordict(tables, {"temperature": tu.get(data, "temperature")})


def jagged(table: Tensor, kept: Tensor) -> Tensor:
    rows = [row[places] for row, places in zip(table, kept, strict=True)]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def full(tensor: Tensor) -> Tensor:
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    # Float64, so that a small step is not lost in the difference.
    return whole.detach().double().clone()


def witness(engine: Any, out: Path) -> list[dict[str, Any]]:
    """Have an engine save a checkpoint before each step, and what the step did."""
    steps: list[dict[str, Any]] = []
    step = engine.optimizer_step

    def parameters() -> dict[str, Tensor]:
        named = engine.module.named_parameters()
        return {n: full(p) for n, p in named if p.requires_grad}

    def witnessed() -> Any:
        named = list(engine.module.named_parameters())
        # Not by the engine, which first moves what is on a CPU to a GPU.
        engine.checkpoint_manager.save_checkpoint(
            str(out / f"global_step_{len(steps)}" / "actor"), global_step=len(steps)
        )
        seen = {
            "gradient": {n: full(p.grad) for n, p in named if p.grad is not None},
            "before": parameters(),
            "rate": engine.optimizer.param_groups[0]["lr"],
        }
        norm = step()
        steps.append(seen | {"after": parameters()})
        return norm

    engine.optimizer_step = witnessed
    return steps


def main(case: dict[str, Any], model: str, out: Path, rank: int, world: int) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="0",
    )
    dist.init_process_group(
        "gloo", init_method=f"file://{out}/meet", rank=rank, world_size=world
    )
    platform()
    worker = make_worker(model, case)
    if case.get("watched", True) and "external_lib" not in case:
        import entrometer as em

        em.watch_verl(worker, out)
    actor = worker.actor
    steps = witness(actor.engine, out)
    vocabulary = actor.model_config.hf_config.vocab_size
    for i in range(case.get("updates", 2)):
        batch = rollouts(case | {"seed": i}, vocabulary)
        update(actor, batch, case, world)
    if rank == 0:
        torch.save(steps, out / "truth.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # At the end: verl brings a package named `tests`.
    sys.path.append(sys.argv[1])
    main(
        json.loads(sys.argv[2]),
        sys.argv[3],
        Path(sys.argv[4]),
        int(sys.argv[5]),
        int(sys.argv[6]),
    )
