from collections import Counter

import pytest

from entrometer.experiments import cost
from entrometer.experiments.cost import (
    Size,
    Work,
    responses,
    units,
    work,
)
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.entropy_change.requests import OneBatch, Products
from entrometer.experiments.requests import Step
from entrometer.passes import TOKEN_BUDGET
from tests.experiments.conftest import CONFIG


@pytest.fixture(scope="module")
def requests(config):
    return list(plan(config)[0].requests())


def test_responses_of_every_kind_of_pass(config, requests):
    """Two updates: the recorded one and one of 5 prompts with 3 responses."""
    found = Counter()
    for request in requests:
        found[request.stage] += responses(request)
    recorded = CONFIG.prompts * CONFIG.responses
    updates = recorded + 15
    assert found == {
        "rollouts": 20 + 15,
        "forward": 20,
        "update": updates,
        "jvp": 20,
        "forward along": 20 * 2 * 2,
        "jvp2": 20 * 2,
        "products": 2 * 16 + updates,
        "one-batch": updates,
    }


def test_a_recorded_batch_is_opened_once(requests, monkeypatch):
    step = next(r for r in requests if isinstance(r, Step))
    assert responses(step) == CONFIG.prompts * CONFIG.responses
    monkeypatch.setattr(cost, "read_update", None)
    assert responses(step) == CONFIG.prompts * CONFIG.responses


def test_every_pass_has_a_price_and_more_responses_a_higher_one(requests):
    assert all(units(request) > 0 for request in requests)
    draws = [r for r in requests if r.kind == "rollouts"]
    by_size = sorted(draws, key=responses)
    assert units(by_size[0]) < units(by_size[-1])


def test_sampling_goes_token_by_token_and_the_rest_batch_by_batch(requests):
    def size(batch):
        return Size(responses=2, tokens=10.0, padded=3000.0, longest=7.0)

    by_kind = {request.kind: request for request in requests}
    assert work(by_kind["rollouts"], size) == Work(calls=7.0, tokens=10.0)
    assert work(by_kind["forward"], size) == Work(calls=1.0, tokens=3000.0)
    products = by_kind["products"]
    assert isinstance(products, Products)
    assert len(products.here) == 2
    assert work(products, size) == Work(9000 / TOKEN_BUDGET, 9000.0)
    assert isinstance(by_kind["one-batch"], OneBatch)
    assert work(by_kind["one-batch"], size) == Work(calls=1.0, tokens=3000.0)
