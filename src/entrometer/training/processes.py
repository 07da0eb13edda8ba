"""The processes that train together, each with all of the model or with a shard."""

import os
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.fsdp import StateDictType

from entrometer.errors import InvalidValue

# Mixins stand left of a trainer among the bases of a class, so `super()` is that
# trainer, whose type is not known here.
AnyTrainer: Any = object


def on_cpu() -> bool:
    """Whether there is no accelerator to train on."""
    return not torch.accelerator.is_available()


def processes() -> Any:
    """Return accelerate's state of this process among those of `torchrun`."""
    # Without `cpu`, accelerate on a machine without accelerators takes each process for
    # the only one, and all would write to the same run.
    return PartialState(cpu=on_cpu())


def shared_arguments(seed: int) -> dict[str, Any]:
    """Return the arguments of TRL that imitation and Dr-GRPO share."""
    return {
        "logging_steps": 1,
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        # TRL turns both on by default. Recorded tables are to be in float32, and memory
        # is limited by the size of micro-batches instead.
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": on_cpu(),
        "seed": seed,
    }


def sharded() -> bool:
    """Whether `accelerate launch` was configured to shard the model over processes."""
    return fsdp() or deepspeed()


def fsdp() -> bool:
    """Whether `accelerate launch` was configured with FSDP."""
    return _is_set("ACCELERATE_USE_FSDP")


def deepspeed() -> bool:
    """Whether `accelerate launch` was configured with DeepSpeed."""
    return _is_set("ACCELERATE_USE_DEEPSPEED")


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() == "true"


class FsdpTrainer(AnyTrainer):  # type: ignore[misc]
    """Mixin: FSDP on CPUs too, only FSDP 2 that saves all weights; no telemetry."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _shard_on_cpus()
        super().__init__(*args, **kwargs)
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None:
            _check(plugin)

    def _send_telemetry(self) -> None:
        # TRL reports every new trainer to the hub unless the environment forbids it.
        pass


def _check(plugin: Any) -> None:
    if plugin.fsdp_version != 2:
        raise InvalidValue(
            f"expected fsdp_version 2, got {plugin.fsdp_version}, with which resuming "
            "was never tested; change it in the config of `accelerate launch`"
        )
    if plugin.state_dict_type is not StateDictType.FULL_STATE_DICT:
        raise InvalidValue(
            "expected fsdp_state_dict_type FULL_STATE_DICT, for complete weights, got "
            f"{plugin.state_dict_type.name}; change the config of `accelerate launch`"
        )


def _shard_on_cpus() -> None:
    # Accelerate shards on accelerators only: on CPUs it silently gives each process the
    # complete model. It decides by the distributed type when a trainer is made, and
    # determines that type again for the arguments of every trainer, so it is set here
    # for each.
    state = processes()
    if state.distributed_type is DistributedType.MULTI_CPU and fsdp():
        state.distributed_type = DistributedType.MULTI_GPU
