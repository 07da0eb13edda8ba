"""A seed for every response, whichever machine draws it."""

# Axes: N responses.

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from entrometer.errors import InvalidValue, ShapeMismatch


def response_seeds(
    seed: int, prompt_ids: Sequence[int], responses_per_prompt: int = 1
) -> Int[np.ndarray, " N"]:
    """Seed of each response, a hash of `seed`, its prompt id and its number.

    Prompt by prompt, `responses_per_prompt` seeds each. A prompt id that comes again,
    as in a batch drawn with replacement, goes on counting: its responses are new ones.
    To share the work out, take the seeds of the whole batch and slice them; the seeds
    of a part would count its repeated prompts from zero.
    """
    if seed < 0 or responses_per_prompt < 1:
        raise InvalidValue(
            "expected a seed of at least 0 and at least one response a prompt, got "
            f"seed {seed} and {responses_per_prompt} responses; change the arguments"
        )
    drawn: Counter[int] = Counter()
    seeds = []
    for prompt_id in prompt_ids:
        for _ in range(responses_per_prompt):
            seeds.append(_hash(seed, prompt_id, drawn[prompt_id]))
            drawn[prompt_id] += 1
    return np.array(seeds, np.int64)


def seeds_for(
    seed: int | Int[np.ndarray, " N"],
    prompts: Sequence[Sequence[int]],
    prompt_ids: Sequence[int],
    responses_per_prompt: int,
) -> Int[np.ndarray, " N"]:
    """Seeds of the responses, given or made; refuses arguments that do not fit."""
    if len(prompts) == 0 or len(prompts) != len(prompt_ids):
        raise ShapeMismatch(
            f"expected one id for each of at least one prompt, got {len(prompts)} "
            f"prompts and {len(prompt_ids)} ids; give each prompt its id"
        )
    if isinstance(seed, int):
        return response_seeds(seed, prompt_ids, responses_per_prompt)
    count = len(prompts) * responses_per_prompt
    if seed.size != count or (seed < 0).any():
        raise ShapeMismatch(
            f"expected {count} seeds of at least 0, one a response, got {seed.size} "
            f"from {seed.min(initial=0)}; slice response_seeds like the prompts"
        )
    return seed.astype(np.int64)


def _hash(seed: int, prompt_id: int, number: int) -> int:
    # Negative ids wrap: SeedSequence hashes unsigned words. The spawn key is hashed
    # apart from the entropy, so no length of `seed` runs into the id.
    key = (int(prompt_id) % 2**64, number)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)
    # 63 bits: a signed column, and what a sampling server accepts.
    return int(words[0] >> np.uint64(1))
