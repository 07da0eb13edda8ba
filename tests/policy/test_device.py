import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy
from entrometer.policy.readiness import as_device

ABSENT = f"cuda:{torch.cuda.device_count()}"


def test_a_device_that_is_there_is_taken():
    assert as_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("device", ["cudda", ABSENT])
def test_one_that_is_not_is_refused_before_anything_is_loaded(device):
    with pytest.raises(InvalidValue, match=f"a device of this machine.*{device}"):
        load_policy("no such model", device=device)
