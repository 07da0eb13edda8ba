"""`entrometer measure --sampler` end to end, with a real vLLM server that draws."""

import os
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.serving import serving
from entrometer.cli import main
from entrometer.passes import forward
from entrometer.policy import load_policy, save_tiny
from entrometer.runs import read_rollouts
from entrometer.training.run import train
from tests.cli.conftest import CONFIG, SMALL
from tests.training.toy import quietly

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        "VLLM_VENV" not in os.environ, reason="tests/vllm/run.sh installs vLLM"
    ),
]


@pytest.fixture(scope="module", params=["adapter", "full"])
def trained(request, tmp_path_factory):
    """A training with its base model, what to serve, and flags of the server."""
    directory = tmp_path_factory.mktemp(request.param)
    base = save_tiny(directory / "base")
    config = replace(CONFIG, policy=str(base))
    if request.param == "full":
        config = replace(config, adapter=None)
    with quietly():
        train(config, directory / "run")
    checkpoint = directory / "run" / "checkpoint-2"
    if request.param == "full":
        return checkpoint, checkpoint, ()
    return checkpoint, base, ("--enable-lora", "--max-lora-rank", "8")


def test_measure_with_responses_of_a_server(trained, tmp_path):
    checkpoint, model, flags = trained
    run = tmp_path / "run"
    # The engine reports log-probs at the temperature only in this mode.
    flags = (*flags, "--logprobs-mode", "processed_logprobs")
    with serving(model, tmp_path / "log.txt", *flags) as url:
        arguments = ["measure", str(checkpoint), *SMALL, "--sampler", url]
        updates = ["--updates", "recorded", "sampled-1"]
        assert main([*arguments, *updates, "--run", str(run)]) == 0
    draws = [read_rollouts(p) for p in run.glob("passes/rollouts-*.parquet")]
    assert sorted(draw.count for draw in draws) == [4, 8, 8]
    policy = load_policy(checkpoint)
    largest = 0.0
    for draw in draws:
        assert (draw.sampler.name, draw.sampler.version) == ("vllm", "0.31.0")
        engine = np.concatenate(draw.engine_logprobs)
        largest = max(largest, float(np.abs(forward(policy, draw).S - engine).max()))
    print(f"largest difference of log-probs {largest:.1e}")
    assert largest < 1e-3
