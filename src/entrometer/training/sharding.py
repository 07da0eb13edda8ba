"""Trainers whose processes hold a part of the model each (FSDP)."""

import os
from typing import Any

from accelerate.utils import DistributedType
from torch.distributed.fsdp import StateDictType

from entrometer.errors import InvalidValue
from entrometer.training.processes import processes

# Left of a trainer among the bases, so that `super()` is that trainer.
_Trainer: Any = object


def sharded() -> bool:
    """Whether `accelerate launch` was told to give each process a part of the model."""
    return fsdp() or deepspeed()


def fsdp() -> bool:
    """Whether it was told to do so by torch's own means."""
    return _told("ACCELERATE_USE_FSDP")


def deepspeed() -> bool:
    """Whether it was told to do so by DeepSpeed."""
    return _told("ACCELERATE_USE_DEEPSPEED")


class Sharded(_Trainer):  # type: ignore[misc]
    """Mixin for a trainer: FSDP on processors too, and checkpoints that can be opened.

    Without FSDP it changes nothing.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _shard_on_processors()
        super().__init__(*args, **kwargs)
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None:
            _check(plugin)


def _check(plugin: Any) -> None:
    if plugin.fsdp_version != 2:
        raise InvalidValue(
            f"expected fsdp_version 2, got {plugin.fsdp_version}, with which training "
            "was never seen to resume; change it in the config of `accelerate launch`"
        )
    if plugin.state_dict_type is not StateDictType.FULL_STATE_DICT:
        raise InvalidValue(
            "expected fsdp_state_dict_type FULL_STATE_DICT, with which a directory has "
            f"whole weights that can be opened, got {plugin.state_dict_type.name}; "
            "change it in the config of `accelerate launch`"
        )


def _shard_on_processors() -> None:
    """Let processors share a model, where `accelerate launch` was told FSDP.

    Accelerate shards on accelerators alone: on processors it would give each process
    the whole model, and not say so. It looks at the kind of its processes when a
    trainer is made, and finds it out anew for the arguments of every trainer.
    """
    state = processes()
    on_processors = state.distributed_type is DistributedType.MULTI_CPU
    if on_processors and fsdp():
        state.distributed_type = DistributedType.MULTI_GPU


def _told(way: str) -> bool:
    return os.environ.get(way, "false").lower() == "true"
