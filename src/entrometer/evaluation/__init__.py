"""pass@k, format, length and entropy of every checkpoint of a run.

Names are looked up when they are first used: a config can then be made, and a command
explained, without waiting for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrometer.evaluation.checkpoint_shards import CheckpointShards
    from entrometer.evaluation.config import EvaluationConfig
    from entrometer.evaluation.draw import draw_shard
    from entrometer.evaluation.keys import evaluation_key
    from entrometer.evaluation.problems import chosen_problems
    from entrometer.evaluation.results import Row
    from entrometer.evaluation.run import Evaluation, Progress, evaluate
    from entrometer.evaluation.shards import Shard, read_shard, write_shard
    from entrometer.evaluation.table import record, render, write_table

_HOMES = {
    "CheckpointShards": "checkpoint_shards",
    "Evaluation": "run",
    "EvaluationConfig": "config",
    "Progress": "run",
    "Row": "results",
    "Shard": "shards",
    "chosen_problems": "problems",
    "draw_shard": "draw",
    "evaluate": "run",
    "evaluation_key": "keys",
    "read_shard": "shards",
    "record": "table",
    "render": "table",
    "write_shard": "shards",
    "write_table": "table",
}

__all__ = [
    "CheckpointShards",
    "Evaluation",
    "EvaluationConfig",
    "Progress",
    "Row",
    "Shard",
    "chosen_problems",
    "draw_shard",
    "evaluate",
    "evaluation_key",
    "read_shard",
    "record",
    "render",
    "write_shard",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
