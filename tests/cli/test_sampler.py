"""`--sampler`: responses drawn by a server, which here has the tiny policy."""

import numpy as np
import pytest

from entrometer.cli import main
from entrometer.passes import forward
from entrometer.policy import load_policy, sample
from entrometer.runs import read_rollouts
from tests.cli.conftest import CONFIG, SMALL, at
from tests.policy.test_vllm_server import Fake, answer, running


class Served:
    """A server of one policy at one temperature, as vLLM would be."""

    def __init__(self, path, base, temperature=CONFIG.temperature):
        self.policy = load_policy(path, base=base)
        self.temperature = temperature

    def __call__(self, request):
        rollouts = sample(
            self.policy,
            [request["prompt"]],
            prompt_ids=[0],
            responses_per_prompt=request["n"],
            temperature=self.temperature,
            max_tokens=request["max_tokens"],
            seed=request["seed"] % 2**31,
        )
        S = forward(self.policy, rollouts).S
        logprobs = np.split(S, np.cumsum(rollouts.length)[:-1])
        full = rollouts.length == request["max_tokens"]
        choices = [
            {
                "index": i,
                "text": rollouts.text[i],
                "finish_reason": "length" if full[i] else "stop",
                "token_ids": rollouts.response_tokens[i].tolist(),
                "logprobs": {"token_logprobs": logprobs[i].tolist()},
            }
            for i in range(rollouts.count)
        ]
        return 200, answer(*choices)


def measure(run, trained, *more):
    run = ["--run", str(run), "--no-report"]
    return main(["measure", *at(trained, 2), *SMALL, *run, *more])


def test_a_server_draws_and_its_log_probs_are_stored(trained, tmp_path, capsys):
    run = tmp_path / "run"
    served = Served(trained / "checkpoint-2", CONFIG.policy)
    updates = ["--updates", "recorded", "sampled-1"]
    with running(Fake(served)) as fake:
        assert measure(run, trained, *updates, "--sampler", fake.url) == 0
    assert {r["temperature"] for r in fake.requests} == {CONFIG.temperature}
    # The adapter is served under the name of its content.
    assert len({r["model"] for r in fake.requests}) == 1
    assert fake.requests[0]["model"] == fake.loaded[0]["lora_name"]
    draws = [read_rollouts(p) for p in run.glob("passes/rollouts-*.parquet")]
    assert sorted(d.count for d in draws) == [4, 8, 8]
    assert all(d.sampler.name == "vllm" for d in draws)
    assert all(d.engine_logprobs is not None for d in draws)
    # What was drawn is not drawn again: the server is down.
    assert main(["measure", "--run", str(run), "--resume", "--no-report"]) == 0


@pytest.mark.parametrize("wrong", ["model", "temperature"])
def test_a_server_of_another_policy_is_refused(trained, tmp_path, capsys, wrong):
    served = Served(trained / "checkpoint-2", CONFIG.policy)
    if wrong == "temperature":
        served.temperature = 0.2
    else:
        for weight in served.policy.model.parameters():
            weight.data.neg_()
    with running(Fake(served)) as fake:
        assert measure(tmp_path / "run", trained, "--sampler", fake.url) == 2
    error = capsys.readouterr().err
    assert "differ by" in error
    assert "--logprobs-mode processed_logprobs" in error


def test_what_is_no_address_is_refused_before_anything_is_loaded(
    trained, tmp_path, capsys
):
    assert measure(tmp_path / "run", trained, "--sampler", "localhost:8000") == 2
    assert "with http:// or https://" in capsys.readouterr().err
    assert measure(tmp_path / "run", trained, "--sampler", "bfloat") == 2
    assert "Did you mean 'bfloat16'?" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
