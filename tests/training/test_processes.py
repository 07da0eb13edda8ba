from types import SimpleNamespace

import pytest
from accelerate.utils import FullyShardedDataParallelPlugin

from entrometer.errors import InvalidValue
from entrometer.training.processes import FsdpTrainer


class Made:
    """As much of a trainer as is looked at."""

    def __init__(self, **settings):
        plugin = FullyShardedDataParallelPlugin(**settings) if settings else None
        self.accelerator = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=plugin))


class Trainer(FsdpTrainer, Made):
    pass


def test_whole_weights_are_accepted():
    Trainer()
    Trainer(fsdp_version=2, state_dict_type="FULL_STATE_DICT")


def test_checkpoints_that_only_fsdp_opens_are_refused():
    with pytest.raises(InvalidValue, match=r"FULL_STATE_DICT.*got SHARDED_STATE_DICT"):
        Trainer(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")


def test_the_older_fsdp_is_refused():
    with pytest.raises(InvalidValue, match="expected fsdp_version 2, got 1"):
        Trainer(fsdp_version=1, state_dict_type="FULL_STATE_DICT")
