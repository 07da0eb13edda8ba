"""Fresh responses to a task with a tool have its replies, and passes leave them out."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.experiments.batches import draw
from entrometer.experiments.measure.plan import plan
from entrometer.experiments.requests import Worker
from tests.training.test_tools import Tooled


@pytest.fixture(scope="module")
def requested(config):
    """Responses of a policy that writes letters, some of which are calls."""
    (point,) = plan(config)
    own = replace(config, task=Tooled.name, max_tokens=24)
    return draw(own, point.subject, np.arange(16), np.arange(16))


def test_the_tool_replies_to_each_response_for_its_own_problem(requested, tmp_path):
    worker = Worker(tmp_path)
    requested.run(worker)
    rollouts = requested.read(tmp_path)
    policy = worker.policy(requested.subject)
    assert rollouts.written is not None
    calls = 0
    for i, mask in enumerate(rollouts.written):
        reply = f"={rollouts.prompt[i]};"
        said = policy.tokenizer.decode(rollouts.response_tokens[i][~mask])
        assert said == reply * (len(said) // len(reply))
        calls += len(said) // len(reply)
        assert rollouts.text[i].count(f"a{reply}") == len(said) // len(reply)
    assert calls > 1
    assert passes.forward(policy, rollouts).S.size == rollouts.length.sum()
    assert requested.response_tokens(tmp_path) == rollouts.full_length.sum()


def test_a_server_is_refused_where_it_would_sample(requested, tmp_path):
    served = replace(requested, sampled_by="vllm", server="http://127.0.0.1:1")
    with pytest.raises(InvalidValue, match="a task without a tool for the sampler"):
        served.run(Worker(tmp_path))
