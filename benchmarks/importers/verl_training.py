"""A process of a training with verl's own parts: wrapping, AdamW, checkpoint manager.

Usage: python verl_training.py KIND MODEL OUT RANK WORLD, with verl on the path. The
kind is fsdp, fsdp-orig (which keeps the parameters as they were), fsdp2, or fsdp or
fsdp2 and `-lora`. Writes verl's checkpoint, and the truth beside it: weights and
moments as torch itself gathers them, and the weights after one more step.
"""

import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy
from torch.optim import Optimizer
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.utils.fsdp_utils import apply_fsdp2, get_fsdp_wrap_policy
from verl.utils.torch_functional import get_constant_schedule_with_warmup
from verl.workers.config.optimizer import build_optimizer

STEPS = 3


def sharded(model: Any, strategy: str, mesh: DeviceMesh) -> Any:
    lora = strategy.endswith("-lora")
    if strategy.startswith("fsdp2"):
        policy = MixedPrecisionPolicy(torch.float32, torch.float32)
        apply_fsdp2(model, {"mesh": mesh, "mp_policy": policy}, {})
        return model
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=get_fsdp_wrap_policy(model, is_lora=lora),
        device_id=torch.device("cpu"),
        device_mesh=mesh,
        use_orig_params="orig" in strategy,
    )


def with_lora(model: Any) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, target_modules="all-linear")
    model.enable_input_require_grads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        adapted = get_peft_model(model, config)
        for name, p in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(p, std=0.02)
    return adapted


def gathered(model: Any, optimizer: Optimizer) -> tuple[Any, Any]:
    options = StateDictOptions(full_state_dict=True)
    weights, state = get_state_dict(model, optimizer, options=options)
    # Copied: on the processor they may well be what the next step moves.
    return deepcopy(weights), deepcopy(state["state"])


def backward(model: Any, vocabulary: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (2, 12), generator=generator)
    model(input_ids=tokens, labels=tokens).loss.backward()


def main(strategy: str, source: str, out: Path, rank: int, world: int) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{out}/meet", rank=rank, world_size=world
    )
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    vocabulary = model.config.vocab_size
    if strategy.endswith("-lora"):
        model = with_lora(model)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
    model = sharded(model, strategy, mesh)
    settings = SimpleNamespace(
        lr=1e-3,
        weight_decay=0.01,
        betas=(0.9, 0.95),
        optimizer="AdamW",
        optimizer_impl="torch.optim",
        override_optimizer_config=None,
    )
    optimizer = build_optimizer(model.parameters(), settings)
    schedule = get_constant_schedule_with_warmup(optimizer, num_warmup_steps=10)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, vocabulary, 10 * step + rank)
        optimizer.step()
        schedule.step()
    manager = FSDPCheckpointManager(
        model,
        optimizer,
        schedule,
        processing_class=AutoTokenizer.from_pretrained(source),
    )
    manager.save_checkpoint(
        str(out / f"global_step_{STEPS}" / "actor"), global_step=STEPS
    )
    weights, moments = gathered(model, optimizer)
    optimizer.zero_grad()
    backward(model, vocabulary, 100 + rank)
    rate = optimizer.param_groups[0]["lr"]
    optimizer.step()
    after, _ = gathered(model, optimizer)
    if rank == 0:
        torch.save(
            {"weights": weights, "moments": moments, "after": after, "rate": rate},
            out / "truth.pt",
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    )
