"""What an experiment is estimated to take, against the passes that it then runs."""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from entrometer.experiments import cost
from entrometer.experiments.cost import (
    SIZES,
    Rate,
    Timing,
    estimate_cost,
    excerpt,
    fit_rate,
    time_passes,
)
from entrometer.experiments.experiment import experiment
from entrometer.experiments.measure import MEASURE, studies
from entrometer.experiments.requests import Minibatch, Request, Step, Worker
from entrometer.experiments.run import requests_of
from tests.experiments.conftest import CONFIG
from tests.experiments.runs import influence

TIMING = Timing(
    rates={},
    first_load=3.0,
    load=1.0,
    lengths=(2, 4),
    sequence=10,
    parameters=1000,
    trained=100,
    kept_per_token=56,
    item_bytes=8,
    weight_bytes=2300,
)
RATE = Rate(fixed=0.5, per_cost=0.25, first=2.0)


@pytest.fixture(params=["measure", "influence", "kernel", "compare"])
def record(request):
    return experiment(request.param)


@pytest.fixture
def settings(record, config):
    """The small config of `measure`, as far as the experiment has its settings."""
    small = {
        "influence": {"folds": 8, "remove": 0.1},
        "kernel": {"kernel_prompts": 4, "held_out": 5, "sketches": (64,)},
    }
    names = vars(config).keys() & record.config.__dataclass_fields__.keys()
    own = {name: getattr(config, name) for name in names}
    return record.config(**own | small.get(record.name, {}))


@pytest.fixture
def priced(monkeypatch):
    """A machine on which every stage has one rate; nothing is run."""

    def timed(subject, few, more):
        stages = {r.stage for part in (few, more) for r in part}
        return replace(TIMING, rates=dict.fromkeys(stages, RATE))

    monkeypatch.setattr(cost, "time_passes", timed)


def all_requests(record, config, store):
    steps = record.steps()
    points = steps.plan(config)
    if steps.follow_up is not None:
        points = steps.follow_up(config, points, store)
    return requests_of(points)


def test_an_excerpt_has_every_stage_and_few_responses(record, settings, tmp_path):
    requests = all_requests(record, settings, tmp_path)
    for prompts, group in SIZES:
        small = excerpt(requests, prompts, group)
        assert {r.stage for r in small} == {r.stage for r in requests}
        assert len({r.key for r in small}) == len(small)
        assert max(r.rows for r in small) <= prompts + group**2
        assert all(r.rows for r in small if r.batches)
        done = set()
        for r in small:
            assert {need.key for need in r.inputs} <= done
            done.add(r.key)


def test_the_stages_of_an_estimate_are_those_of_the_plan(
    record, settings, tmp_path, priced
):
    estimate = estimate_cost(record, settings, tmp_path)
    requests = {r.key: r for r in all_requests(record, settings, tmp_path)}.values()
    passes = Counter(r.stage for r in requests)
    assert {name: s.passes for name, s in estimate.stages.items()} == passes
    for name, stage in estimate.stages.items():
        seconds = [RATE.seconds(r) for r in requests if r.stage == name]
        assert stage.done == 0
        assert stage.seconds == pytest.approx(2.0 + sum(seconds))
    total = sum(s.seconds for s in estimate.stages.values())
    assert estimate.seconds == pytest.approx(total + estimate.loading + estimate.after)


def test_responses_of_every_stage(config, tmp_path, priced):
    """Two updates: the recorded one and one of 5 prompts with 3 responses."""
    stages = estimate_cost(MEASURE, config, tmp_path).stages
    updates = CONFIG.prompts * CONFIG.responses + 15
    assert {name: s.responses for name, s in stages.items()} == {
        "rollouts": 20 + 15,
        "forward": 20,
        "update": updates,
        "jvp": 20,
        "forward after step": 20 * 2 * 2,
        "jvp2": 20 * 2,
        "products": 2 * 16 + updates,
        "one-batch": updates,
    }


def test_float64_is_loaded_after_the_float32_that_samples(config, tmp_path, priced):
    assert estimate_cost(MEASURE, config, tmp_path).loading == 3.0 + 1.0
    single = replace(config, precision="float32")
    assert estimate_cost(MEASURE, single, tmp_path).loading == 3.0


def test_stored_passes_cost_nothing(config, measured):
    estimate = estimate_cost(MEASURE, config, measured / "passes")
    assert estimate.timing is None
    assert all(s.done == s.passes for s in estimate.stages.values())
    assert all(s.seconds == 0 for s in estimate.stages.values())
    assert estimate.loading == 0


def test_only_missing_passes_are_priced(config, measured, priced):
    """A further learning rate costs its forward passes, and one loading."""
    further = replace(config, etas=(*config.etas, 1e-3))
    estimate = estimate_cost(MEASURE, further, measured / "passes")
    left = {name for name, s in estimate.stages.items() if s.seconds}
    assert left == {"forward after step"}
    assert estimate.loading == 3.0


def test_studies_cost_what_a_few_of_their_batches_cost(config, monkeypatch, measured):
    """A hundred batches take a second here, of either study."""
    ticks = count()
    monkeypatch.setattr(studies.time, "perf_counter", lambda: float(next(ticks)))
    longer = replace(config, synthetic_batches=2000)
    after = estimate_cost(MEASURE, longer, measured / "passes").after
    # 3 pairs at 2 learning rates of 2 updates; 2 estimators of 8 and of 16 prompts.
    assert after == pytest.approx(20 * (3 * 2 * 2 + 2 * 2))


def test_memory_counts_weights_vectors_and_activations(config, tmp_path, priced):
    memory = estimate_cost(MEASURE, config, tmp_path).memory
    recorded = CONFIG.prompts
    # Two moments, a step, and the rows of an update's prompts twice; 8 bytes each.
    assert memory.vectors == 8 * 100 * (2 + 2 + 2 * max(recorded, 5))
    assert memory.weights == 2300
    assert memory.activations == 56 * 4096


def test_a_rate_is_fitted_by_relative_errors():
    assert fit_rate([(4.0, 1.5), (16.0, 4.5)]) == pytest.approx((0.5, 0.25, 0.0))
    flat = fit_rate([(4.0, 2.0), (16.0, 1.0)])
    assert flat.per_cost == 0.0
    assert 1.0 <= flat.fixed <= 2.0
    assert fit_rate([(0.0, 0.5), (0.0, 0.5)])[:2] == pytest.approx((0.5, 0.0))


def test_passes_are_timed_without_loading(config, monkeypatch, tmp_path):
    """The rate that a pretended machine has comes out, and none of the loading."""
    requests = all_requests(MEASURE, config, tmp_path)
    now, seen = 0.0, set()
    policy = Worker.policy

    def load(worker, subject):
        nonlocal now
        now += 2.0 if worker._subject != subject else 0.0
        return policy(worker, subject)

    def spending(run):
        def spent(request, worker):
            nonlocal now
            run(request, worker)
            now += RATE.seconds(request)
            now += 0.0 if request.stage in seen else RATE.first
            seen.add(request.stage)

        return spent

    few, more = (excerpt(requests, *size) for size in SIZES)
    # Kinds may share a method: each is replaced once, in the class that defines it.
    mros = [type(r).__mro__ for r in few]
    for kind in {next(c for c in mro if "run" in vars(c)) for mro in mros}:
        monkeypatch.setattr(kind, "run", spending(kind.run))
    monkeypatch.setattr(Worker, "policy", load)
    monkeypatch.setattr(cost.time, "perf_counter", lambda: now)
    timing = time_passes(few[0].subject, few, more)
    assert set(timing.rates) == {r.stage for r in requests}
    for stage, rate in timing.rates.items():
        assert tuple(rate) == pytest.approx(tuple(RATE)), stage
    assert (timing.first_load, timing.load) == (2.0, 2.0)


def test_a_recorded_batch_is_opened_once(config, tmp_path, monkeypatch):
    requests = all_requests(MEASURE, config, tmp_path)
    step = next(r for r in requests if isinstance(r, Step))
    assert step.rows == CONFIG.prompts * CONFIG.responses
    monkeypatch.setattr("entrometer.experiments.requests.responses.read_update", None)
    assert replace(step).rows == CONFIG.prompts * CONFIG.responses


def test_prompts_of_a_batch_and_of_a_part_of_it(config, tmp_path):
    requests = all_requests(MEASURE, config, tmp_path)
    recorded = next(r.batch for r in requests if isinstance(r, Step))
    assert recorded.prompts == CONFIG.prompts
    part = Minibatch(batch=recorded, part=1, parts=2)
    assert part.prompts == CONFIG.prompts / 2


def test_progress_goes_from_nothing_to_all_over_both_phases(config, tmp_path):
    names = experiment("influence").config.__dataclass_fields__.keys() & vars(config)
    own = {name: getattr(config, name) for name in names}
    small = experiment("influence").config(**own, folds=4, remove=0.1)
    shares = []
    influence(
        small, tmp_path / "run", progress=lambda s: shares.append((s.done, s.total))
    )
    done = [d / t for d, t in shares]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0)
    assert len({round(t, 6) for _, t in shares}) == 1


def test_requests_are_at_most_two_levels_below_the_root():
    def depth(kind):
        below = [k for k in kind.__subclasses__() if k.__module__.startswith("entro")]
        return max((1 + depth(k) for k in below), default=0)

    for name in ("measure", "influence", "kernel", "compare"):
        experiment(name).steps()
    assert depth(Request) == 2
