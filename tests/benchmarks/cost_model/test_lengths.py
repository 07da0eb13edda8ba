import inspect

import numpy as np
import pytest
import torch

from benchmarks.cost_model.flops import Lengths
from benchmarks.cost_model.flops.architecture import HEAD_CHUNK
from benchmarks.cost_model.flops.lengths import pairs
from benchmarks.cost_model.flops.parts import QUERY_CHUNK
from benchmarks.cost_model.flops.passes import TOKEN_BUDGET
from benchmarks.cost_model.flops.sampling import CACHED_TOKENS
from benchmarks.cost_model.scale import assumptions
from entrometer.passes import TOKEN_BUDGET as PASSES_BUDGET
from entrometer.passes import batches, head
from entrometer.policy import attention_tangents, sample, tiny_policy


@pytest.fixture(scope="module")
def rollouts():
    prompts = [[1] * (1 + i % 5) for i in range(12)]
    return sample(
        tiny_policy(), prompts, prompt_ids=list(range(12)), max_tokens=9, seed=3
    )


@pytest.mark.parametrize("budget", [1, 20, 64, 4096])
def test_batches_are_those_that_a_pass_forms(rollouts, budget):
    made = [
        tuple(b.input_ids.shape)
        for b in batches(rollouts, device=torch.device("cpu"), budget=budget)
    ]
    told = Lengths.of(pairs(rollouts)).batches(budget)
    assert [(b.sequences, b.length) for b in told] == made


def test_expected_lengths_are_quantiles_of_those_seen():
    seen = Lengths.of([(4, 2), (6, 10), (5, 3)])
    assert seen.expected(3).response.tolist() == [2, 3, 10]
    many = seen.expected(300)
    assert np.bincount(many.response)[[2, 3, 10]].tolist() == [100, 100, 100]
    # A pair stays a pair.
    assert set(zip(many.prompt.tolist(), many.response.tolist(), strict=True)) == {
        (4, 2),
        (6, 10),
        (5, 3),
    }
    assert seen.expected(0).count == 0


def test_constants_are_those_of_the_passes():
    assert TOKEN_BUDGET == PASSES_BUDGET
    assert head._CHUNK_BYTES["cpu"] == HEAD_CHUNK
    assert head._LARGE_CHUNK_BYTES == assumptions.HEAD_CHUNK
    assert attention_tangents._MOST_QUERIES == QUERY_CHUNK
    settings = inspect.signature(sample).parameters
    assert settings["batch_tokens"].default == CACHED_TOKENS
