"""What a worker holds of the steps that it went along."""

import weakref

import pytest
import torch

from entrometer.experiments.measure.plan import plan
from entrometer.experiments.requests import Forward, Jvp, Jvp2, Step, Worker


@pytest.fixture
def steps(config):
    (point,) = plan(config)
    return [update.step for update in point.updates]


@pytest.fixture
def worker(measured):
    return Worker(measured / "passes")


@pytest.fixture
def reads(monkeypatch):
    """Steps, as their directions are read."""
    found, read = [], Step.read_direction
    monkeypatch.setattr(
        Step,
        "read_direction",
        lambda step, store: found.append(step) or read(step, store),
    )
    return found


def test_a_direction_is_that_of_its_step(steps, worker):
    for step, v in zip(steps, worker.directions(steps), strict=True):
        whole = step.read(worker.store).direction
        assert v.keys() == whole.keys()
        assert all(torch.equal(v[name], whole[name]) for name in whole)


def test_it_is_read_once_for_all_shards(steps, worker, reads):
    first, second = steps
    for _ in range(3):
        worker.directions([first])
    assert reads == [first]
    assert len(worker.directions([second, first, second])) == 3
    assert reads == [first, second]


def test_others_are_let_go_before_a_new_one_is_read(steps, worker, monkeypatch):
    first, second = steps
    refs = [weakref.ref(x) for v in worker.directions([first]) for x in v.values()]
    held = []

    def read(step, store):
        held.append([ref for ref in refs if ref() is not None])
        return {}

    monkeypatch.setattr(Step, "read_direction", read)
    worker.directions([second])
    assert held == [[]]


def test_passes_leave_it_as_it_was(config, steps, worker, tmp_path):
    """What one shard did would otherwise be in all that follow."""
    (point,) = plan(config)
    draw, step = point.draws[0], steps[0]
    for request in (step, draw):
        source = request.path(worker.store)
        (tmp_path / source.name).write_bytes(source.read_bytes())
    other = Worker(tmp_path)
    for request in (
        Jvp(subject=step.subject, rollouts=draw, steps=(step,)),
        Jvp2(subject=step.subject, rollouts=draw, step=step),
        Forward(subject=step.subject, rollouts=draw, step=step, eta=0.5),
    ):
        request.run(other)
    (held,) = other.directions([step])
    whole = step.read(other.store).direction
    assert all(torch.equal(held[name], whole[name]) for name in whole)
