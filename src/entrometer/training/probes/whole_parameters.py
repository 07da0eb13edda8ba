"""Where parameters and their gradients are whole on every process."""

from typing import Any

from torch.distributed.tensor import DTensor

from entrometer.errors import InvalidValue


def require_whole_parameters(trainer: Any, instrument: str) -> None:
    """Refuse a trainer whose processes hold only shards."""
    kind = str(getattr(trainer.accelerator.distributed_type, "value", "NO"))
    sharded = any(isinstance(p, DTensor) for p in trainer.model.parameters())
    if sharded or not (kind == "NO" or kind.startswith("MULTI_")):
        raise InvalidValue(
            f"{instrument}: expected every process to hold whole parameters, got "
            f"{'sharded ones' if sharded else kind}; train on one process or with "
            f"data parallelism (DDP), or leave {instrument} out"
        )
