"""pass@k, format, length and entropy of every checkpoint of a run."""

from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.draw import draw_shard
from entrometer.evaluation.evaluate import Evaluation, Progress, evaluate
from entrometer.evaluation.keys import evaluation_key, weights_key
from entrometer.evaluation.problems import chosen_problems
from entrometer.evaluation.results import Row
from entrometer.evaluation.shards import Shard, read_shard, write_shard
from entrometer.evaluation.table import record, render, write_table

__all__ = [
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
    "weights_key",
    "write_shard",
    "write_table",
]
