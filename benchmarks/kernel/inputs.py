"""What every method is given: a checkpoint of SmolLM2, and responses that it gave."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entrometer.policy import load_policy, sample
from entrometer.runs import Rollouts, read_rollouts, response_seeds, write_rollouts
from entrometer.tasks import task
from entrometer.tasks.registry import Split
from studies.smollm2 import prepare_smollm2

PROMPTS, RESPONSES = 32, 8
MAX_TOKENS = 64
CHECKPOINT = Path(__file__).parents[2] / "studies" / "reference" / "checkpoint-40"
BUDGET = 2048
"""Padded tokens of a batch, the same for everyone."""


@dataclass(frozen=True)
class Inputs:
    """A checkpoint, and a file of rollouts."""

    checkpoint: Path
    rollouts: Path

    def read(self) -> Rollouts:
        return read_rollouts(self.rollouts)


def write_inputs(folder: Path, prompts: int) -> Inputs:
    """Draw the responses, once for all methods."""
    prepare_smollm2()
    policy = load_policy(CHECKPOINT, base="smollm2")
    judge = task("arithmetic", level="easy")
    problems = judge.problems(Split.TRAIN, prompts)
    ids = np.repeat(np.arange(prompts), RESPONSES)
    rollouts = sample(
        policy,
        [policy.tokenizer(judge.prompt(problems[int(i)]))["input_ids"] for i in ids],
        prompt_ids=ids.tolist(),
        max_tokens=MAX_TOKENS,
        seed=response_seeds(0, ids.tolist()),
    )
    path = folder / "rollouts.parquet"
    write_rollouts(path, rollouts)
    return Inputs(CHECKPOINT, path)
