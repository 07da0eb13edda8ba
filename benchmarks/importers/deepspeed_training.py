"""A process of a training with DeepSpeed, saved as OpenRLHF saves an actor.

Usage: python deepspeed_training.py KIND MODEL OUT RANK WORLD, with deepspeed on the
path. The kind is zero1, zero2 or zero3, or one of them and `-bf16`. Writes two
checkpoints, one step apart.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

STEPS = 3


def grouped(model: nn.Module) -> list[dict[str, Any]]:
    exempt = (
        "bias",
        "layer_norm.weight",
        "layernorm.weight",
        "norm.weight",
        "ln_f.weight",
    )
    named = list(model.named_parameters())
    exempted = [p for name, p in named if any(word in name for word in exempt)]
    rest = [p for name, p in named if not any(word in name for word in exempt)]
    return [
        {"params": rest, "weight_decay": 0.01},
        {"params": exempted, "weight_decay": 0.0},
    ]


def backward(engine: Any, vocabulary: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (2, 12), generator=generator)
    engine.backward(engine(input_ids=tokens, labels=tokens).loss)


def main(kind: str, source: str, out: Path, rank: int, world: int) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        DS_ACCELERATOR="cpu",
    )
    import deepspeed
    from transformers import AutoModelForCausalLM

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{out}/meet", rank=rank, world_size=world
    )
    # Sums by shared memory would be compiled first, for minutes; gloo has its own.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")
    half = kind.endswith("-bf16")
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,
        "bf16": {"enabled": half},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": int(kind[4]),
            "stage3_param_persistence_threshold": 100,
        },
        "steps_per_print": 1000,
    }
    model = AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.bfloat16 if half else torch.float32
    )
    vocabulary = model.config.vocab_size
    optimizer = torch.optim.AdamW(grouped(model), lr=1e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min(1.0, (n + 1) / 10)
    )
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=optimizer,
        lr_scheduler=schedule,
        config=config,
        dist_init_required=False,
    )
    for step in range(STEPS):
        backward(engine, vocabulary, 10 * step + rank)
        engine.step()
    for step in (STEPS, STEPS + 1):
        engine.save_checkpoint(str(out / "_actor"), tag=f"global_step{step}")
        if step == STEPS:
            backward(engine, vocabulary, 100 + rank)
            engine.step()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    )
