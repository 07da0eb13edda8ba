import pytest

from entrometer.experiments.entropy_change import calibrate as module
from entrometer.experiments.entropy_change.calibrate import (
    Architecture,
    Calibration,
    Price,
    calibrate,
)
from entrometer.experiments.entropy_change.cost import Work, responses, stage, work
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.entropy_change.worker import Worker


@pytest.fixture(scope="module")
def point(config):
    return plan(config)[0]


class Clock:
    """Time that passes only in passes, by a price for each kind of them."""

    def __init__(self, monkeypatch, size):
        self.now = 0.0
        self.seen = set()
        self.passes = []
        carry_out, checkpoint = Worker.carry_out, Worker.checkpoint

        def spend(worker, request):
            carry_out(worker, request)
            name = stage(request)
            self.passes.append(request)
            done = work(request, lambda batch: size(worker, batch))
            self.now += 0.25 * done.calls + 0.125 * done.tokens
            self.now += 0.0 if name in self.seen else 3.0
            self.seen.add(name)

        def load(worker, subject):
            fresh = worker._loaded is None or worker._loaded[0] != subject
            self.now += 2.0 if fresh else 0.0
            return checkpoint(worker, subject)

        monkeypatch.setattr(Worker, "carry_out", spend)
        monkeypatch.setattr(Worker, "checkpoint", load)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)


def test_prices_are_found_from_the_times_of_few_and_more(point, monkeypatch):
    """Every price that a pretended machine has comes out, and none of the loading."""

    def size(worker, batch):
        return module._size(module.read_rollouts(batch.path(worker.store)))

    clock = Clock(monkeypatch, size)
    found = calibrate(point)
    assert set(found.prices) == {stage(r) for r in point.requests()}
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
