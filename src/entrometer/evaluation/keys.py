"""Names made from content, so that a result is never taken for another."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from entrometer.evaluation.config import EvaluationConfig
from entrometer.policy.sources import local_directory
from entrometer.tasks.task import Problem, Task

FORMAT = 1
"""Version of what is measured; another one is another evaluation."""

# They change the table or the rounding, not what is sampled.
_FREE = ("ks", "batch_tokens")

# What decides, beside the weights, what a policy does with a text.
_SETTINGS = (
    "adapter_config.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def evaluation_key(
    task: Task, problems: Sequence[Problem], config: EvaluationConfig
) -> str:
    """Name of an evaluation: a hash of its settings and of all that is asked.

    Of the task it covers the name, the prompts and the reference answers. A verifier
    that changes by itself should come under another name of the task.
    """
    settings = {k: v for k, v in asdict(config).items() if k not in _FREE}
    asked = [[p.index, task.prompt(p), p.question, p.answer] for p in problems]
    content = {
        "format": FORMAT,
        "task": task.name,
        "config": settings,
        "problems": asked,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def weights_key(checkpoint: Path, base: str | Path | None) -> str:
    """Name of a policy: a hash of its weights, its settings and the name of its base.

    What the base holds is not read: it is expected to stay as it is.
    """
    directory = local_directory(checkpoint)
    digests = {}
    for path in sorted(directory.iterdir()):
        if path.suffix == ".safetensors" or path.name in _SETTINGS:
            with open(path, "rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    content = {"base": None if base is None else str(base), "files": digests}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
