"""A request on its way to a worker carries keys, and reads what it read before."""

import pickle
from dataclasses import replace

import numpy as np

from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.requests import Draw, read_draws


def wide(config: object) -> InfluenceConfig:
    names = InfluenceConfig.__dataclass_fields__.keys() & vars(config)
    own = {name: getattr(config, name) for name in names}
    return replace(InfluenceConfig(**own), prompts=512, shard=32, folds=8)


def test_a_pickled_request_has_no_seeds_of_what_it_reads(config):
    (point,) = plan(wide(config))
    adjoint = point.updates[0].adjoint
    sent = pickle.dumps(adjoint)
    seeds = [seed for h in point.here for seed in h.rollouts.seeds]
    assert len(seeds) == 512
    assert not any(seed.to_bytes(8, "little") in sent for seed in seeds)
    assert len(sent) < 8_000
    received = pickle.loads(sent)
    assert received.key == adjoint.key
    assert [g.rows for g in received.gradients] == [g.rows for g in adjoint.gradients]
    assert not any(isinstance(h.rollouts, Draw) for h in received.gradients[0].here)


def test_a_pickled_draw_has_its_seeds(config):
    (point,) = plan(wide(config))
    draw = point.here[0].rollouts
    received = pickle.loads(pickle.dumps(draw))
    assert (received.seeds, received.key) == (draw.seeds, draw.key)


def test_a_reference_reads_the_rollouts_of_its_draw(config, measured):
    from entrometer.experiments.measure.plan import plan as measure_plan

    (point,) = measure_plan(config)
    store = measured / "passes"
    forward = pickle.loads(pickle.dumps(point.here[0]))
    received = read_draws([forward.rollouts], store)
    expected = read_draws([point.here[0].rollouts], store)
    np.testing.assert_array_equal(received.length, expected.length)
    assert forward.path(store) == point.here[0].path(store)
