"""What our trainers ask of accelerate, and set on its state."""

import argparse

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.data_loader import skip_first_batches
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import (
    DistributedType,
    FullyShardedDataParallelPlugin,
    gather_object,
    send_to_device,
)
from accelerate.utils.launch import prepare_multi_gpu_env
from torch.distributed.fsdp import StateDictType

from entrometer.training.processes import FsdpTrainer, deepspeed, fsdp
from tests.contracts.library import accepts


@pytest.fixture
def fresh_state():
    """Accelerate's state is shared by all objects of a process: put it back."""
    states = (PartialState, AcceleratorState, GradientState)
    before = [dict(state._shared_state) for state in states]
    for state in states:
        state._shared_state.clear()
    yield
    for state, values in zip(states, before, strict=True):
        state._shared_state.clear()
        state._shared_state.update(values)


def launched(tmp_path, config: str) -> dict[str, str]:
    """The environment that `accelerate launch` gives to each process."""
    from accelerate.commands.launch import (
        _validate_launch_command,
        launch_command_parser,
    )

    path = tmp_path / "config.yaml"
    path.write_text(config)
    parser = launch_command_parser()
    args = parser.parse_args(["--config_file", str(path), "script.py"])
    args, _, _ = _validate_launch_command(args)
    assert isinstance(args, argparse.Namespace)
    return prepare_multi_gpu_env(args)


def test_fsdp_is_announced_by_the_environment(tmp_path, monkeypatch):
    config = (
        "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n"
    )
    for name, value in launched(tmp_path, config).items():
        monkeypatch.setenv(name, value)
    assert fsdp()
    assert not deepspeed()


def test_processors_can_be_made_to_share_a_model(fresh_state, monkeypatch):
    """Accelerate reads the kind of its processes once per trainer, where we set it."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    state = PartialState(cpu=True)
    assert state.num_processes == 1
    # As two processes of `torchrun` on processors are seen.
    state.distributed_type = DistributedType.MULTI_CPU
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, state_dict_type="FULL_STATE_DICT"
    )

    class Made:
        def __init__(self):
            self.accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)

    trainer = type("Trainer", (FsdpTrainer, Made), {})()
    assert trainer.accelerator.distributed_type is DistributedType.FSDP
    assert trainer.accelerator.state.fsdp_plugin is plugin
    assert trainer.accelerator.is_fsdp2


def test_a_plugin_says_its_version_and_its_kind_of_state():
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, state_dict_type="FULL_STATE_DICT"
    )
    assert plugin.fsdp_version == 2
    assert plugin.state_dict_type is StateDictType.FULL_STATE_DICT


def test_kinds_of_training_have_the_names_that_probes_compare():
    """Probes need complete parameters: NO and MULTI_* have them."""
    complete = {
        kind.value for kind in DistributedType if kind.value.startswith("MULTI")
    }
    assert {"MULTI_CPU", "MULTI_GPU"} <= complete
    assert DistributedType.NO.value == "NO"
    assert {"FSDP", "DEEPSPEED"} <= {kind.value for kind in DistributedType} - complete


def test_a_process_knows_its_place(fresh_state):
    state = PartialState(cpu=True)
    assert (state.num_processes, state.process_index) == (1, 0)
    assert state.is_main_process
    assert state.device.type == "cpu"
    state.wait_for_everyone()


def test_objects_of_one_process_are_gathered_as_they_are(fresh_state):
    PartialState(cpu=True)
    rows = [{"row": 1}, {"row": 0}]
    assert gather_object(rows) == rows


def test_a_window_of_inputs_is_sent_to_a_device_as_it_is_nested():
    """Checkpoints restore the window of TRL: lists, texts and numbers stay."""
    window = [{"row": torch.arange(2), "text": ["a", "b"], "count": 3, "none": None}]
    sent = send_to_device(window, torch.device("meta"))
    assert sent[0]["row"].is_meta
    rest = {name: x for name, x in sent[0].items() if name != "row"}
    assert rest == {"text": ["a", "b"], "count": 3, "none": None}
    assert send_to_device(None, torch.device("meta")) is None


def test_an_accelerator_gathers_and_reduces(fresh_state):
    accelerator = Accelerator(cpu=True)
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(accelerator.gather(x), x)
    assert torch.equal(accelerator.reduce(x, reduction="sum"), x)
    assert accelerator.scaler is None
    assert accelerator.sync_gradients is True
    assert accelerator.is_fsdp2 is False


def test_the_epoch_reaches_our_sampler_by_a_plain_loader():
    """Through the wrappers of several processes it does not: `_run_epoch` sets it."""
    from accelerate.data_loader import DataLoaderShard
    from torch.utils.data import RandomSampler

    epochs = []

    class Sampler(RandomSampler):
        def set_epoch(self, epoch):
            epochs.append(epoch)

    data = list(range(4))
    loader = DataLoaderShard(data, sampler=Sampler(data))
    loader.set_epoch(3)
    assert epochs == [3]
    assert accepts(skip_first_batches, "dataloader", "num_batches")
