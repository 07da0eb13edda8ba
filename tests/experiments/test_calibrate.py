from functools import partialmethod

import pytest

from entrometer.experiments import calibrate as module
from entrometer.experiments.calibrate import Calibration, calibrate, pairs
from entrometer.experiments.cost import work
from entrometer.experiments.cost_model import Lengths, Machine, Rate
from entrometer.experiments.cost_model.here import architecture_of
from entrometer.experiments.entropy_change.excerpt import FEW, MORE, excerpt
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.requests import Worker

MACHINE = Machine(flops=1e9, bandwidth=1e8)


@pytest.fixture(scope="module")
def point(config):
    return plan(config)[0]


@pytest.fixture(scope="module")
def shape(point, tmp_path_factory):
    worker = Worker(tmp_path_factory.mktemp("store"))
    return architecture_of(worker.checkpoint(point.subject).policy)


def _spend(request, spend, carry_out, worker):
    spend(carry_out, request, worker)


class Clock:
    """Time that passes only in passes, at a rate that all kinds of them have."""

    def __init__(self, monkeypatch, rate, shape, kinds):
        self.now = 0.0
        self.seen = set()
        self.passes = []
        checkpoint = Worker.checkpoint

        def spend(carry_out, request, worker):
            carry_out(request, worker)
            name = request.stage
            self.passes.append(request)
            done = work(
                request, shape, lambda b: Lengths.of(pairs(b.read(worker.store)))
            )
            self.now += rate.seconds(MACHINE, done)
            self.now += 0.0 if name in self.seen else rate.first
            self.seen.add(name)

        def load(worker, subject):
            fresh = worker._loaded is None or worker._loaded[0] != subject
            self.now += 2.0 if fresh else 0.0
            return checkpoint(worker, subject)

        for kind in kinds:
            own = partialmethod(_spend, spend, kind.carry_out)
            monkeypatch.setattr(kind, "carry_out", own)
        monkeypatch.setattr(Worker, "checkpoint", load)
        monkeypatch.setattr(module, "measure_machine", lambda policy: MACHINE)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)


def test_rates_are_found_from_the_times_of_few_and_more(point, shape, monkeypatch):
    """The rate that a pretended machine has comes out, and none of the loading."""
    few, more = (list(excerpt(point, *s).requests()) for s in (FEW, MORE))
    true = Rate(call=0.25, stretch=1.5, first=3.0)
    clock = Clock(monkeypatch, true, shape, {type(request) for request in few})
    found = calibrate(point.subject, few, more)
    assert set(found.rates) == {r.stage for r in point.requests()}
    assert found.architecture == shape
    for request in point.requests():
        done = work(request, shape, found.expected)
        assert found.rates[request.stage].first == pytest.approx(3.0)
        assert found.seconds(request) == pytest.approx(true.seconds(MACHINE, done))
    assert (found.first_load, found.load) == (2.0, 2.0)
    assert max(r.rows for r in clock.passes) <= 12 + 16


def test_expected_lengths_follow_those_that_were_seen(point, shape):
    found = Calibration(MACHINE, {}, 1.0, 1.0, ((4, 2), (6, 10)), shape)
    expected = found.expected(point.draws[0])
    assert expected.prompt.tolist() == [4] * 4 + [6] * 4
    assert expected.response.tolist() == [2] * 4 + [10] * 4
