"""Responses of random tokens: a pass does not ask where they came from."""

from collections.abc import Sequence

import numpy as np

from entrometer.runs import Rollouts, Sampler


def as_rollouts(
    prompts: Sequence[np.ndarray],
    responses: Sequence[np.ndarray],
    *,
    groups: Sequence[int] | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
) -> Rollouts:
    """Return token sequences as rollouts without text or reward.

    Args:
        prompts: Prompt of each response.
        responses: As many.
        groups: Number of each prompt, equal for responses to the same one.
        temperature: At which the policy is measured.
        top_p: As if they had been sampled with it.
        top_k: Likewise.
    """
    count = len(responses)
    sampler = Sampler(
        name="transformers",
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        max_tokens=max(map(len, responses)),
        model="random",
        version="0",
    )
    return Rollouts(
        prompt=np.arange(count) if groups is None else np.array(groups),
        prompt_tokens=tuple(prompts),
        response_tokens=tuple(responses),
        seed=np.arange(count),
        text=("",) * count,
        reward=np.zeros(count),
        sampler=sampler,
    )
