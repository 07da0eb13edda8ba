"""A group of processes keeps to its devices: shards on the CPU meet none elsewhere."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from entrometer.engine import group as groups
from entrometer.engine import quiet
from entrometer.engine.group import GroupEngine, serve
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.requests.make_worker import MakeWorker
from entrometer.experiments.run import missing
from entrometer.policy import fused_attention
from tests.experiments.test_second_device import requests_of, require_equal
from tests.groups import in_group, second_device_of_a_group


def carried_out(asked, store, device, maker):
    """Run requests in this process's group."""
    group = groups._current
    # Attend as on a device everywhere, so that both sides have the same bits.
    fused_attention.on_processor = lambda _: False
    with second_device_of_a_group() if device == "cuda" else nullcontext():
        if not group.leader:
            serve(group, maker)
            return
        engine = GroupEngine(group)
        engine.run(missing(asked, store), worker=maker, store=store, progress=quiet)
        group.end()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_measurement_in_shards_keeps_to_its_devices(trained, tmp_path):
    config = MeasureConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        updates=("recorded",),
        policy="tiny",
        task="toy-letters",
        problems=8,
        max_tokens=6,
        format_weight=0.5,
        shard=8,
        prompts=8,
        batches=1,
        etas=(1e-5,),
        curvature_prompts=0,
        variance_prompts=8,
        model_shards=2,
    )
    found = []
    for device in ("cpu", "cuda"):
        store = tmp_path / device
        store.mkdir()
        asked = requests_of(replace(config, device=device), store)
        maker = MakeWorker.with_registered()
        in_group(store, 2, carried_out, asked, store, device, maker)
        found.append({f"{n}: {r.kind}": r.path(store) for n, r in enumerate(asked)})
    require_equal(*found)
