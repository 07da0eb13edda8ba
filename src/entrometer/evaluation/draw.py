"""A shard from a policy: responses drawn, judged and measured."""

# Axes: N responses.

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.shards import Shard
from entrometer.passes import forward
from entrometer.policy import Policy, eos_tokens, sample
from entrometer.tasks.registry import Problem, Score, Task


def draw_shard(
    policy: Policy, task: Task, problems: Sequence[Problem], config: EvaluationConfig
) -> Shard:
    """Draw n responses to each problem, judge them, and look at every token.

    The seed of a response is a function of `config.seed`, its problem and its number:
    checkpoints share their random numbers, so what sets them apart is the weights.
    """
    prompts = [policy.tokenizer(task.prompt(p))["input_ids"] for p in problems]
    rollouts = sample(
        policy,
        prompts,
        prompt_ids=[p.index for p in problems],
        responses_per_prompt=config.responses,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        seed=config.seed,
        batch_tokens=config.batch_tokens,
    )
    asked = [p for p in problems for _ in range(config.responses)]
    scores = [
        _checked(task, problem, task.score(problem, text))
        for problem, text in zip(asked, rollouts.text, strict=True)
    ]
    last = np.array([tokens[-1] for tokens in rollouts.response_tokens])
    return Shard(
        rollouts=replace(rollouts, reward=np.array([s.answer for s in scores], float)),
        tables=forward(policy, rollouts),
        format=np.array([s.format for s in scores], float),
        truncated=~np.isin(last, eos_tokens(policy)),
    )


def _checked(task: Task, problem: Problem, score: Score) -> Score:
    # Not `< 0 or > 1`: that lets NaN through.
    if not all(0 <= part <= 1 for part in score):
        raise InvalidValue(
            f"expected scores from 0 to 1 of the task {task.name!r}, got {score} for "
            f"problem {problem.index}; mend its `score`"
        )
    return score
