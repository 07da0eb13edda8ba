from collections import Counter

import pytest

from entrometer.errors import MissingKey
from entrometer.experiments import cost
from entrometer.experiments.comparison import requests as of_comparison
from entrometer.experiments.cost import work
from entrometer.experiments.cost_model import Lengths, decoder, passes
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.entropy_change.requests import Products
from entrometer.experiments.influence import requests as of_influence
from entrometer.experiments.influence import words
from entrometer.experiments.kernel import requests as of_kernel
from entrometer.experiments.requests import Minibatch, Request, Step
from entrometer.experiments.requests.divided import SumOfSums, SumPiece, TablePiece
from tests.experiments.conftest import CONFIG

SHAPE = decoder(
    layers=2,
    width=16,
    heads=2,
    kv_heads=1,
    feed_forward=32,
    vocabulary=50,
    tied=True,
    rank=2,
)
LENGTHS = Lengths.of([(4, 6)] * 8)


@pytest.fixture(scope="module")
def requests(config):
    return list(plan(config)[0].requests())


def test_responses_of_every_kind_of_pass(config, requests):
    """Two updates: the recorded one and one of 5 prompts with 3 responses."""
    found = Counter()
    for request in requests:
        found[request.stage] += request.rows
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
    assert step.rows == CONFIG.prompts * CONFIG.responses
    monkeypatch.setattr("entrometer.experiments.requests.base.read_update", None)
    assert step.rows == CONFIG.prompts * CONFIG.responses


def test_every_pass_has_a_price_and_more_responses_a_higher_one(requests):
    assert all(request.cost > 0 for request in requests)
    draws = [r for r in requests if r.kind == "rollouts"]
    by_size = sorted(draws, key=lambda r: r.rows)
    assert by_size[0].cost < by_size[-1].cost


def test_sampling_goes_token_by_token_and_the_rest_batch_by_batch(requests):
    found = {
        request.stage: work(request, SHAPE, lambda batch: LENGTHS)
        for request in requests
    }
    assert found["rollouts"].calls == 6
    assert found["forward"].calls == found["update"].calls == 1
    assert found["one-batch"].calls == 1 + 2
    products = next(r for r in requests if isinstance(r, Products))
    both = len(products.here) + 1
    alone = passes.rows(SHAPE, Lengths.of([(4, 6)] * 8 * both), 8)
    assert found["products"].flop > alone.flop
    assert found["products"].calls == alone.calls


def test_directions_of_a_jvp_are_its_steps_and_their_momentum(requests):
    jvp = next(r for r in requests if r.kind == "jvp")
    assert len(jvp.steps) == 2
    assert work(jvp, SHAPE, lambda b: LENGTHS) == passes.jvp(SHAPE, LENGTHS, 8, 4)


def test_prompts_of_a_batch_and_of_a_part_of_it(config, requests):
    recorded = next(r.batch for r in requests if isinstance(r, Step))
    assert recorded.prompts == CONFIG.prompts
    part = Minibatch(batch=recorded, part=1, parts=2)
    assert part.prompts == CONFIG.prompts / 2


def kinds(base):
    for own in base.__subclasses__():
        yield from kinds(own)
        if hasattr(own, "kind") and own.__module__.startswith("entrometer."):
            yield own


def test_it_is_known_what_every_kind_of_request_is_made_of():
    assert {of_comparison, of_influence, of_kernel, words}
    # Pieces of a request are priced with it.
    pieces = {TablePiece.kind, SumPiece.kind, SumOfSums.kind}
    known = {own.kind for own in kinds(Request)} - pieces
    assert len(known) > 20
    assert known == set(cost._PARTS)


def test_a_kind_that_nobody_knows_is_refused_with_what_to_do(requests, monkeypatch):
    monkeypatch.setattr(type(requests[0]), "kind", "guesses")
    with pytest.raises(MissingKey, match=r"experiments/cost\.py"):
        work(requests[0], SHAPE, lambda batch: LENGTHS)
