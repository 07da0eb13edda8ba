"""Random token tables, as a pass over some model might write them."""

# Axes: K tokens of all responses (layout: Responses).

from dataclasses import dataclass

import numpy as np

from entrometer.estimators import Baseline, Curvatures, Responses, Tables, Tangents


@dataclass(frozen=True, eq=False)
class RandomBatch:
    responses: Responses
    here: Tables
    there: Tables
    tangents: Tangents
    curvatures: Curvatures
    baseline: Baseline

    def taken(self, rows: np.ndarray, prompt: np.ndarray) -> "RandomBatch":
        """These responses in this order, under these prompt ids."""
        start = self.responses.start
        index = np.concatenate([np.arange(start[i], start[i + 1]) for i in rows])
        laid = Responses.from_lengths(prompt, self.responses.length[rows])
        columns = (
            self.here,
            self.there,
            self.tangents,
            self.curvatures,
            self.baseline,
        )
        return RandomBatch(
            laid, *(type(table)(*(x[index] for x in table)) for table in columns)
        )


def random_batch(seed: int, prompts: int) -> RandomBatch:
    """One to three responses to each prompt, of one to six tokens."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), rng.integers(1, 4, size=prompts))
    responses = Responses.from_lengths(prompt, rng.integers(1, 7, size=prompt.size))
    x = rng.normal(size=(8, responses.tokens))
    here = Tables(-np.abs(x[0]), np.abs(x[1]))
    there = Tables(here.S + 0.2 * x[2], np.abs(here.H + 0.2 * x[3]))
    return RandomBatch(
        responses,
        here,
        there,
        Tangents(x[4], x[5]),
        Curvatures(x[6], x[7]),
        Baseline(*rng.normal(size=(2, responses.tokens))),
    )
