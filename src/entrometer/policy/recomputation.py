"""Layers that a backward pass computes again, instead of keeping what is in them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from entrometer.policy.forwards import replaced_forwards
from entrometer.policy.fused_attention import shared_row
from entrometer.policy.policy import Policy
from entrometer.policy.shared_prompts import SharedPrompts, packed_row


@contextmanager
def recomputed_layers(policy: Policy) -> Iterator[None]:
    """Let graphs that are made in this context keep only the inputs of layers.

    A backward pass computes each layer once more, so it needs memory for the inputs of
    all layers and the inside of one. No number changes.
    """
    body: Any = policy.body
    forwards = {
        layer: partial(_kept_inputs, policy.base, layer.forward)
        for layer in getattr(body, "layers", ())
    }
    with replaced_forwards(forwards):
        yield


def _kept_inputs(
    base: Any,
    forward: Callable[..., Any],
    _: nn.Module,
    *inputs: Any,
    **named: Any,
) -> Any:
    # A backward pass may run in another thread, after this context is left.
    again = partial(_again, base, packed_row(), copy_context(), forward)
    return checkpoint(
        again, *inputs, **named, use_reentrant=False, preserve_rng_state=False
    )


def _again(
    base: Any,
    row: SharedPrompts | None,
    context: Context,
    forward: Callable[..., Any],
    *inputs: Any,
    **named: Any,
) -> Any:
    with shared_row(base, row):
        return context.run(forward, *inputs, **named)
