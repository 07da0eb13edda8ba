"""What a pass used is free when it returns, without waiting for the collector."""

import gc

import pytest
import torch

from entrometer import passes
from tests.policy.small_models import (
    direction,
    random_rollouts,
    random_weights,
    small_policy,
)

PASSES = {
    "forward": lambda p, r, v: passes.forward(p, r),
    "forward_along": lambda p, r, v: passes.forward_along(p, r, v, [1e-3]),
    "concentration": lambda p, r, v: passes.concentration(p, r),
    "jvp": lambda p, r, v: passes.jvp(p, r, [v]),
    "jvp2": lambda p, r, v: passes.jvp2(p, r, v),
    "vjp": lambda p, r, v: passes.vjp(p, r, random_weights(r)),
    "per_sequence": lambda p, r, v: list(passes.per_sequence(p, r, random_weights(r))),
}


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", PASSES)
def test_no_tensor_of_a_pass_is_left_in_a_cycle(name, lora):
    policy, rollouts = small_policy("llama", lora=lora), random_rollouts()
    v = direction(policy)
    PASSES[name](policy, rollouts, v)  # the first of a jvp is held against another
    gc.collect()
    gc.disable()
    try:
        PASSES[name](policy, rollouts, v)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [x for x in gc.garbage if isinstance(x, torch.Tensor)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
