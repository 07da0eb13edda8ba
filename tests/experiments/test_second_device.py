"""Every experiment keeps to one device: nothing on the CPU meets a policy elsewhere."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer.engine import LocalEngine, quiet, read_log
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.experiment import experiment, experiment_names
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.measure.plan import plan as plan_measurement
from entrometer.experiments.requests import Request, ShardedSum, Worker, sharded
from entrometer.experiments.run import run_requests
from entrometer.policy import fused_attention, load_checkpoint
from entrometer.runs.columns import read_columns
from tests.second_device import SecondDevice


@pytest.fixture(autouse=True)
def kernels_of_a_device(monkeypatch):
    """Attend as on a device everywhere, so that both sides have the same bits."""
    monkeypatch.setattr(fused_attention, "on_processor", lambda _: False)


# Transformers asks for autocast of the device's kind, which this torch has not.
pytestmark = pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")

OTHER_TABLES = ("rollouts", "decoded-texts")
"""Kinds of requests whose tables are of texts."""


def test_the_second_device_refuses_what_cuda_refuses():
    with SecondDevice() as device:
        x, y = torch.ones(3).to("cuda"), torch.ones(3)
        assert (x.device.type, y.device.type) == ("cuda", "cpu")
        assert device.moved == 12
        for mixed in (
            lambda: x + y,
            lambda: y.add_(x),
            lambda: torch.dot(x, y),
            lambda: torch.stack([x, y]),
            lambda: torch.zeros(()).add_(x.sum()),
            lambda: torch.func.jvp(lambda a: a * y, (x,), (x,)),
            lambda: y[torch.tensor([0]).to("cuda")] + x[0],
        ):
            with pytest.raises(RuntimeError, match="on the same device"):
                mixed()
        with pytest.raises(TypeError, match="can't convert cuda"):
            np.asarray(x)
        # A number, an index and a copy may come from the CPU.
        assert torch.equal((x * y.sum())[torch.tensor([0])].cpu(), torch.tensor([3.0]))
        assert y.copy_(x).device.type == "cpu"
        assert x.new_zeros(2).device.type == x[1:].device.type == "cuda"


def requests_of(config, store):
    """Passes of an experiment, with those that follow from the first ones."""
    record = next(
        record
        for record in map(experiment, experiment_names())
        if record.config is type(config)
    )
    steps = record.steps()
    points = steps.plan(config)
    if steps.follow_up is not None:
        points = steps.follow_up(config, points, store)
    return [r for point in points for r in point.requests()]


@pytest.fixture
def settings(trained):
    """As few samples as show each kind of pass."""
    return {
        "checkpoints": (str(trained / "checkpoint-2"),),
        "updates": ("recorded",),
        "policy": "tiny",
        "task": "toy-letters",
        "problems": 8,
        "max_tokens": 6,
        "format_weight": 0.5,
        "shard": 8,
    }


@pytest.fixture
def in_pieces(monkeypatch):
    """One response per piece, so that sums are added up in a tree of files."""
    monkeypatch.setattr(Request, "shard_tokens", 6)
    monkeypatch.setattr(ShardedSum, "part_tokens", 6)
    monkeypatch.setattr(ShardedSum, "fan_in", 2)


def passes_on_both(config, tmp_path):
    """The passes of an experiment on the CPU and on the second device, by kind."""
    results = []
    for device in ("cpu", "cuda"):
        store = tmp_path / device
        store.mkdir()
        asked = requests_of(replace(config, device=device), store)
        with SecondDevice() if device == "cuda" else nullcontext():
            run_requests(asked, store, quiet, LocalEngine())
        results.append({f"{n}: {r.kind}": r.path(store) for n, r in enumerate(asked)})
    return results


def require_equal(on_cpu, on_device):
    assert on_cpu.keys() == on_device.keys()
    for name, path in on_cpu.items():
        if path.suffix == ".parquet" and name.split()[1] not in OTHER_TABLES:
            one, other = read_columns(path), read_columns(on_device[name])
            for column in one:
                np.testing.assert_array_equal(one[column], other[column], name)


def test_a_measurement_keeps_to_its_device(config, settings, tmp_path):
    small = replace(
        config, **settings, prompts=8, curvature_prompts=8, variance_prompts=8
    )
    require_equal(*passes_on_both(replace(small, etas=(1e-5,)), tmp_path))


def test_influence_keeps_to_its_device(settings, tmp_path):
    few = {"prompts": 8, "folds": 4, "past": 1, "batches": 3}
    asked = InfluenceConfig(**settings, **few, remove=0.1)
    require_equal(*passes_on_both(asked, tmp_path))


def test_a_kernel_keeps_to_its_device(settings, tmp_path):
    asked = KernelConfig(
        **settings,
        kernel_prompts=3,
        kernel_responses=2,
        held_out=2,
        sketches=(64,),
        eigenvalues=2,
    )
    require_equal(*passes_on_both(asked, tmp_path))


def test_a_divided_comparison_keeps_to_its_device(settings, tmp_path, in_pieces):
    asked = CompareConfig(
        **settings,
        minibatches=("2/2",),
        interventions=("clip-v",),
        prompts=8,
        folds=4,
        eta=1e-5,
    )
    on_cpu, on_device = passes_on_both(asked, tmp_path)
    kinds = {row.kind for row in read_log(tmp_path / "cuda")}
    assert {"sum-shard", "sum-of-sums", "table-shard", "policy-after-step"} <= kinds
    require_equal(on_cpu, on_device)


def test_a_sum_goes_on_from_its_snapshot_on_its_device(
    settings, config, tmp_path, monkeypatch
):
    monkeypatch.setattr(ShardedSum, "part_tokens", 6)
    small = replace(config, **settings, device="cuda")
    (point,) = plan_measurement(small)
    step = point.updates[0].step
    ascent, calls = sharded.running_sum, []

    def cut_short(snapshot, parts, summand, **settings):
        def counted(place):
            calls.append(place)
            if calls == [0, 1]:
                raise KeyboardInterrupt
            return summand(place)

        return ascent(snapshot, parts, counted, **settings, every=0.0)

    monkeypatch.setattr(sharded, "running_sum", cut_short)
    with SecondDevice():
        with pytest.raises(KeyboardInterrupt):
            run_requests([step], tmp_path, quiet, LocalEngine())
        assert list(tmp_path.glob(".*.snapshot"))
        run_requests([step], tmp_path, quiet, LocalEngine())
    assert calls[:3] == [0, 1, 1]
    assert step.path(tmp_path).exists()


def test_a_plain_forward_moves_no_moments_to_the_device(settings, config, tmp_path):
    """Weights alone; a step's conclusion then moves the moments."""
    small = replace(config, **settings, prompts=8)
    (point,) = plan_measurement(replace(small, device="cuda"))
    checkpoint = load_checkpoint(settings["checkpoints"][0], base="tiny")
    weights = sum(p.nbytes for p in checkpoint.policy.model.parameters())
    moments = 2 * sum(p.nbytes for p in checkpoint.policy.trained().values())
    worker = Worker(tmp_path)
    with SecondDevice() as device:
        loaded = worker.checkpoint(replace(point.subject, precision="float32"))
        assert weights <= device.moved < weights + moments
        before = device.moved
        _ = [*loaded.state.first_moment.values(), *loaded.state.second_moment.values()]
        assert device.moved - before == moments
