"""The responses of an update through the model, before its first micro-batch."""

# Axes: B responses of a micro-batch, T response tokens, C features.

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing

from entrometer.passes.head import VocabularyHead
from entrometer.training.trained_policy import trained_policy
from entrometer.training.update_tables import Rows, rows_of

_MEDIA = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)
"""What else TRL hands to the model, by its names."""


@contextmanager
def looking_ahead(trainer: Any) -> Iterator[None]:
    """No gradients, and what is drawn is drawn again by the passes to come.

    Dropout then leaves out the same, so that both passes see one policy, and training
    draws what it would have drawn.
    """
    device = trainer.accelerator.device
    devices = [] if device.type == "cpu" else [device]
    with (
        torch.random.fork_rng(devices=devices, device_type=device.type),
        torch.no_grad(),
        disable_gradient_checkpointing(
            trainer.model, trainer.args.gradient_checkpointing_kwargs
        ),
    ):
        yield


def rows_ahead(trainer: Any, inputs: Mapping[str, Any], *, concentration: bool) -> Rows:
    """The rows of a micro-batch, by the policy as it is."""
    response = inputs["completion_ids"]
    tokens = torch.cat([inputs["prompt_ids"], response], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    T = response.shape[1]
    with _hidden(trainer, concentration) as caught:
        S, H, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            tokens,
            mask,
            T,
            compute_entropy=True,
            **{name: inputs[name] for name in _MEDIA if name in inputs},
        )
    if not caught:
        return rows_of(inputs, S, H)
    # The distribution of a token is that after the one before it.
    counted = inputs["completion_mask"].bool()
    surplus = _surplus(trainer, caught[0][:, -T - 1 : -1], counted)
    return rows_of(inputs, S, H, surplus)


@contextmanager
def _hidden(trainer: Any, wanted: bool) -> Iterator[list[Tensor]]:
    """Last hidden states of the forward that is made inside, if they are wanted."""
    caught: list[Tensor] = []
    if not wanted:
        yield caught
        return

    def catch(module: Any, arguments: Any, output: Any) -> None:
        caught.append(output.last_hidden_state)

    handle = trained_policy(trainer, "concentration").body.register_forward_hook(catch)
    try:
        yield caught
    finally:
        handle.remove()


def _surplus(
    trainer: Any, hidden: Float[Tensor, "B T C"], counted: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    r"""$\sum_v p_v^2(\log p_v + H)$ before each counted token."""
    policy = trained_policy(trainer, "concentration")
    weight = policy.head_weight
    head = VocabularyHead(
        # In float32 at least: a log-prob in bfloat16 has two digits.
        weight=weight.to(torch.promote_types(weight.dtype, torch.float32)),
        softcap=policy.softcap,
        temperature=trainer.temperature,
    )
    h = hidden[counted].to(head.weight)
    surplus = h.new_zeros(counted.shape)
    surplus[counted] = head.concentration(h)[1]
    return surplus
