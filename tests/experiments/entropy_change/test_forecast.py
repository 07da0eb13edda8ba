from collections import defaultdict
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from entrometer.experiments.calibrate import Calibration
from entrometer.experiments.cost_model import (
    Machine,
    Rate,
    decoder,
    peak_memory,
)
from entrometer.experiments.entropy_change import forecast as module
from entrometer.experiments.entropy_change.forecast import forecast
from entrometer.experiments.entropy_change.plan import plan

SHAPE = decoder(
    layers=2,
    width=10,
    heads=2,
    kv_heads=1,
    feed_forward=30,
    vocabulary=50,
    tied=True,
)
CALIBRATION = Calibration(
    machine=Machine(flops=1e9, bandwidth=1e9),
    rates=defaultdict(lambda: Rate(call=0.5, stretch=2.0, first=2.0)),
    first_load=3.0,
    load=1.0,
    lengths=((4, 2), (6, 4)),
    architecture=SHAPE,
)


@pytest.fixture(scope="module")
def points(config):
    return plan(config)


def test_a_stage_costs_its_passes_and_one_warm_up(config, points, tmp_path):
    told = forecast(config, points, tmp_path, CALIBRATION)
    for name, found in told.stages.items():
        own = [r for r in points[0].requests() if r.stage == name]
        each = [CALIBRATION.seconds(r) for r in own]
        assert found.passes == len(own)
        assert found.responses == sum(r.rows for r in own)
        assert (found.done, found.seconds) == (0, pytest.approx(2.0 + sum(each)))
    passes = sum(s.seconds for s in told.stages.values())
    assert told.seconds == pytest.approx(passes + told.loading + told.studies)


def test_float64_is_loaded_after_the_float32_that_samples(config, points, tmp_path):
    assert forecast(config, points, tmp_path, CALIBRATION).loading == 3.0 + 1.0
    single = replace(config, precision="float32")
    told = forecast(single, plan(single), tmp_path, CALIBRATION)
    assert told.loading == 3.0


def test_what_is_done_costs_nothing(config, points, measured):
    store = measured / "passes"
    told = forecast(config, points, store, None)
    assert all(s.done == s.passes and s.seconds == 0 for s in told.stages.values())
    assert told.loading == 0


def test_only_what_is_missing_is_priced(config, points, other, measured):
    """A further learning rate costs its forwards, and one loading."""
    told = forecast(other, plan(other), measured / "passes", CALIBRATION)
    missing = {name for name, s in told.stages.items() if s.seconds}
    assert missing == {"forward along"}
    found = told.stages["forward along"]
    assert found.passes - found.done == len(points[0].draws) * len(config.updates)
    assert told.loading == 3.0


def test_studies_cost_what_a_few_of_their_batches_cost(config, points, monkeypatch):
    """A hundred batches take a second here, of either study."""
    ticks = count()
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(ticks)))
    longer = replace(config, synthetic_batches=2000)
    told = forecast(longer, points, Path("nowhere"), None)
    # 3 pairs at 2 learning rates of 2 updates; 2 estimators of 8 and of 16 prompts.
    assert told.studies == pytest.approx(20 * (3 * 2 * 2 + 2 * 2))


def test_memory_counts_weights_vectors_and_activations(config, points, tmp_path):
    memory = forecast(config, points, tmp_path, CALIBRATION).memory
    # Float64; moments, a direction and a preconditioner, and twice 5 rows; a shard of 8
    # responses, padded to 10 tokens with their prompts.
    assert memory == peak_memory(SHAPE, 80, 4 + 10, "float64")
