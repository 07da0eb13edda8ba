"""`em.watch` on a stock trainer of two processes: one file per update, all rows."""

import numpy as np
import pytest

from entrometer.experiments.update import ascent_of
from entrometer.experiments.update_batch import recorded_batch
from entrometer.policy import save_tiny
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import read_update, update_path
from entrometer.runs.updates import require_usable
from tests.training.recorded_gradient import distance, trained_gradient
from tests.training.watched_processes import RESPONSES, watched

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def trained(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param)
    save_tiny(out / "model")
    watched(out, request.param)
    return request.param, out


def test_an_update_has_the_responses_of_both_processes(trained):
    _, out = trained
    for step in (1, 2):
        path = update_path(out, step)
        batch = read_update(path)
        require_usable(path, batch)
        assert batch.count == RESPONSES
        assert np.unique(batch.group, return_counts=True)[1].tolist() == [4] * 4
        assert any(np.abs(alpha).max() > 0 for alpha in batch.alpha)


def test_its_weights_give_the_gradient_that_the_optimizer_got(trained):
    kind, out = trained
    if kind == "fsdp":
        pytest.skip("a stock FSDP checkpoint has its optimizer in shards")
    batch = read_update(update_path(out, 2))
    policy = load_checkpoint(out / "checkpoint-1").policy
    ascent = ascent_of(policy, recorded_batch(batch))
    found = {name: -g for name, g in ascent.items()}
    assert distance(trained_gradient(out, 2), found) < 1e-5
