from functools import partialmethod

import pytest

from entrometer.experiments import calibrate as module
from entrometer.experiments.calibrate import (
    Architecture,
    Calibration,
    Price,
    calibrate,
)
from entrometer.experiments.cost import Work, responses, work
from entrometer.experiments.entropy_change.excerpt import FEW, MORE, excerpt
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.requests import Worker


@pytest.fixture(scope="module")
def point(config):
    return plan(config)[0]


def _spend(request, spend, carry_out, worker):
    spend(carry_out, request, worker)


class Clock:
    """Time that passes only in passes, by a price for each kind of them."""

    def __init__(self, monkeypatch, size, kinds):
        self.now = 0.0
        self.seen = set()
        self.passes = []
        checkpoint = Worker.checkpoint

        def spend(carry_out, request, worker):
            carry_out(request, worker)
            name = request.stage
            self.passes.append(request)
            done = work(request, lambda batch: size(worker, batch))
            self.now += 0.25 * done.calls + 0.125 * done.tokens
            self.now += 0.0 if name in self.seen else 3.0
            self.seen.add(name)

        def load(worker, subject):
            fresh = worker._loaded is None or worker._loaded[0] != subject
            self.now += 2.0 if fresh else 0.0
            return checkpoint(worker, subject)

        for kind in kinds:
            own = partialmethod(_spend, spend, kind.carry_out)
            monkeypatch.setattr(kind, "carry_out", own)
        monkeypatch.setattr(Worker, "checkpoint", load)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)


def test_prices_are_found_from_the_times_of_few_and_more(point, monkeypatch):
    """Every price that a pretended machine has comes out, and none of the loading."""

    def size(worker, batch):
        return module._size(module.read_rollouts(batch.path(worker.store)))

    few, more = (list(excerpt(point, *s).requests()) for s in (FEW, MORE))
    clock = Clock(monkeypatch, size, {type(request) for request in few})
    found = calibrate(point.subject, few, more)
    assert set(found.prices) == {r.stage for r in point.requests()}
    for name, price in found.prices.items():
        assert price.first == pytest.approx(3.0)
        assert price.seconds(Work(6.0, 40.0)) == pytest.approx(1.5 + 5.0), name
    assert (found.first_load, found.load) == (2.0, 2.0)
    assert max(responses(r) for r in clock.passes) <= 12 + 16


def test_expected_size_follows_the_lengths_that_were_seen(point):
    found = Calibration({}, 1.0, 1.0, ((4, 2), (6, 10)), Architecture(1, 1, 1, 1))
    size = found.size(point.draws[0])
    assert size == (8, 8 * 6, 8 * 11, 10)


def test_price_is_linear_in_calls_and_tokens():
    assert Price(5.0, 2.0, 0.5).seconds(Work(3, 10)) == 11.0
