"""The policy that a trainer trains, as the passes see it."""

from typing import Any

from torch import nn

from entrometer.errors import InvalidValue
from entrometer.policy import Policy, Precision


def trained_policy(trainer: Any, who: str) -> Policy:
    """The trainer's model, which is shared; `who` asks is named in errors."""
    processing = trainer.processing_class
    return Policy(
        model=trainer.model,
        tokenizer=getattr(processing, "tokenizer", processing),
        precision=trained_precision(trainer.model, who),
        source=trainer.model.config._name_or_path,
    )


def trained_precision(model: nn.Module, who: str) -> Precision:
    """What its weights are in; refused where a policy has no name for it."""
    dtype = next(model.parameters()).dtype
    for precision in Precision:
        if precision.dtype == dtype:
            return precision
    raise InvalidValue(
        f"{who}: expected weights in one of {', '.join(Precision)}, got {dtype}; load "
        "the model in float32 or bfloat16, or leave it out"
    )
