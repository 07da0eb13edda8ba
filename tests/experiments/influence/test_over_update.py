"""Steps without some tokens of a batch whose loss pulls on entropies too."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer.calculus import add, norm
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.requests import WithoutTokens
from entrometer.experiments.requests import Recorded, Worker
from entrometer.experiments.update import momentum_and_decay
from entrometer.interventions import intervention
from entrometer.runs import read_update, write_update
from entrometer.runs.content import file_sha256


@pytest.fixture
def step(config, tmp_path):
    """The recorded one, had its training had a bonus for entropy."""
    (point,) = plan(config)
    own = point.updates[0].step
    # Without the weights of its own loss.
    bare = replace(read_update(own.batch.path), alpha=None, gamma=None)
    path = tmp_path / "bare.parquet"
    write_update(path, bare)
    text = intervention("entropy-bonus:alpha=0.3").text
    batch = Recorded(path=str(path), sha256=file_sha256(path), intervention=text)
    return replace(own, batch=batch)


def without(step, places):
    return replace(step, loss=WithoutTokens(places=tuple(places.tolist())))


def test_what_is_taken_out_pulls_on_nothing_and_the_rest_as_before(step, tmp_path):
    whole = step.read_batch(tmp_path)
    out = np.arange(whole.gamma.size) % 3 == 1
    batch = without(step, np.flatnonzero(out)).read_batch(tmp_path)
    for name in ("alpha", "gamma"):
        before, after = getattr(whole, name), getattr(batch, name)
        assert before[out].any(), name
        assert before[~out].any(), name
        assert not after[out].any(), name
        assert np.array_equal(after[~out], before[~out]), name


def test_without_all_of_its_tokens_a_step_is_momentum_and_decay(step, tmp_path):
    worker = Worker(tmp_path)
    tokens = step.read_batch(tmp_path).gamma.size
    own = []
    for made in (step, without(step, np.arange(tokens))):
        made.run(worker)
        vectors = made.read(tmp_path)
        left = vectors.direction
        for part in momentum_and_decay(
            worker.checkpoint(step.subject), vectors
        ).values():
            left = add(left, part, scale=-1.0)
        own.append(norm(left) / norm(vectors.direction))
    assert own[0] > 1e-2
    assert own[1] < 1e-12
