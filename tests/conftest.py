"""Settings of every test: one thread, and examples that are the same each time."""

import pytest
import torch
from hypothesis import settings

from entrometer.interventions import registry

# The tensors are small: a second thread costs more than it brings, and sums would
# depend on the machine.
torch.set_num_threads(1)

settings.register_profile("entrometer", deadline=None, derandomize=True)
settings.load_profile("entrometer")


@pytest.fixture(autouse=True)
def registered_for_a_test(monkeypatch):
    """An intervention that a test registers is gone after it."""
    monkeypatch.setattr(registry, "_REMEDIES", dict(registry._REMEDIES))
