"""What a measurement of influence is said to need, and what it then does."""

from collections import Counter

import pytest

from entrometer.experiments.calibrate import Calibration
from entrometer.experiments.cost_model import Machine, Rate, decoder
from entrometer.experiments.influence import forecast as module
from entrometer.experiments.influence.excerpt import FEW, MORE, excerpt
from entrometer.experiments.influence.forecast import foresee
from entrometer.experiments.influence.influence import influence
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.removals import checks

SHAPE = decoder(
    layers=2,
    width=10,
    heads=2,
    kv_heads=1,
    feed_forward=30,
    vocabulary=50,
    tied=True,
)


@pytest.fixture
def priced(monkeypatch):
    """A machine on which every kind of pass of the excerpt costs a second a call."""

    def calibrate(subject, few, more):
        stages = {r.stage for part in (few, more) for r in part}
        return Calibration(
            machine=Machine(flops=1e9, bandwidth=1e9),
            rates={stage: Rate(call=1.0, stretch=0.0) for stage in stages},
            first_load=3.0,
            load=1.0,
            lengths=((4, 2), (6, 4)),
            architecture=SHAPE,
        )

    monkeypatch.setattr(module, "calibrate", calibrate)


def test_the_passes_that_are_told_are_those_that_are_made(
    config, influenced, tmp_path, priced
):
    """Of the check too, whose tokens are not known before."""
    told = foresee(config, tmp_path).forecast
    made = Counter(
        request.stage
        for point in plan(config)
        for request in [
            *point.requests(),
            *(
                r
                for own in checks(config, [point], influenced / "passes")
                for check in own
                for r in check.requests()
            ),
        ]
    )
    assert {name: s.passes for name, s in told.stages.items()} == made
    assert all(s.done == 0 and s.seconds > 0 for s in told.stages.values())


def test_what_is_done_is_known_to_be_done(config, influenced):
    told, prices = foresee(config, influenced / "passes")
    assert prices is None
    assert all(s.done == s.passes for s in told.stages.values())


def test_memory_counts_every_gradient_twice(config, tmp_path, priced):
    memory = foresee(config, tmp_path).forecast.memory
    # Float64; moments, a direction and a preconditioner; 4 folds of two objectives and
    # two halves of the length.
    assert memory is not None
    assert memory.vectors == 8.0 * SHAPE.trained * (4 + 2 * 10)


def test_an_excerpt_has_every_kind_of_pass_and_few_responses(config):
    (point,) = plan(config)
    stages = {r.stage for r in point.requests()} | {"forward along"}
    for size in (FEW, MORE):
        own = list(excerpt(point, *size, removing=True))
        assert {r.stage for r in own} == stages
        assert len({r.key for r in own}) == len(own)


def test_progress_goes_from_nothing_to_all_over_both_phases(config, tmp_path):
    shares = []
    influence(
        config, tmp_path / "run", progress=lambda s: shares.append((s.done, s.total))
    )
    done = [d / t for d, t in shares]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0)
    assert len({round(t, 6) for _, t in shares}) == 1
