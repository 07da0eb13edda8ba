"""Seeds of responses, which depend on no other response of a batch."""

# Axes: N responses.

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from entrometer.errors import InvalidValue, ShapeMismatch


def response_seeds(
    seed: int, prompt_ids: Sequence[int], responses_per_prompt: int = 1
) -> Int[np.ndarray, " N"]:
    """Return a seed per response: a hash of `seed`, its prompt id and its number.

    Seeds are in the order of the prompts, `responses_per_prompt` each, and the same on
    every machine. A repeated prompt id, as in a batch drawn with replacement, continues
    counting: its responses are new ones. To split a batch, slice the seeds of the
    complete batch; the seeds of a part would count its repeated prompts from zero.
    """
    if seed < 0 or responses_per_prompt < 1:
        raise InvalidValue(
            "expected a seed of at least 0 and at least one response per prompt, got "
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
    """Return one seed per response: those given, or derived from a single seed."""
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
            f"expected {count} seeds of at least 0, one per response, got {seed.size}, "
            f"the smallest {seed.min(initial=0)}; slice response_seeds like the prompts"
        )
    return seed.astype(np.int64)


def _hash(seed: int, prompt_id: int, number: int) -> int:
    # Negative ids wrap, for SeedSequence hashes unsigned words. It hashes the spawn key
    # separately from the seed, so a long seed cannot collide with an id.
    key = (int(prompt_id) % 2**64, number)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)
    # 63 bits fit into a signed column and are accepted by sampling servers.
    return int(words[0] >> np.uint64(1))
