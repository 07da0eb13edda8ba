"""Settings of every test: one thread, and examples that are the same each time."""

import torch
from hypothesis import settings

# The tensors are small: a second thread costs more than it brings, and sums would
# depend on the machine.
torch.set_num_threads(1)

settings.register_profile("entrometer", deadline=None, derandomize=True)
settings.load_profile("entrometer")
