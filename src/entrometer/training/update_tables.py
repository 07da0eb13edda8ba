"""Token tables of a complete update, over its micro-batches and processes."""

# Axes: B responses, T tokens of a response, C features.

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad
from trl.models.utils import disable_gradient_checkpointing

from entrometer.interventions import PLAIN, Intervention, TokenTables, intervention
from entrometer.passes.forward import vocabulary_head
from entrometer.training.instruments import counted_tokens, trained_policy

CHANGED = 1e-6  #: Relative difference from plain Dr-GRPO of a changed token.

# Other inputs that TRL passes to the model, by its names.
_MEDIA_INPUTS = (
    *("pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask"),
    *("spatial_shapes", "num_tiles", "image_sizes", "token_type_ids"),
    *("mm_token_type_ids", "image_position_ids"),
)


class Rows(NamedTuple):
    """Some responses of an update, detached, in float64 on the CPU.

    Statistics, and tokens drawn at random, are then the same on every device.
    """

    row: Int[Tensor, " B"]
    S: Float[Tensor, "B T"]
    H: Float[Tensor, "B T"]
    S_old: Float[Tensor, "B T"]
    A: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    concentration: Float[Tensor, "B T"] | None = None
    S_engine: Float[Tensor, "B T"] | None = None
    S_ref: Float[Tensor, "B T"] | None = None


def micro_batch_rows(
    inputs: Mapping[str, Any],
    S: Float[Tensor, "B T"],
    H: Float[Tensor, "B T"],
    concentration: Float[Tensor, "B T"] | None = None,
) -> Rows:
    """Return the rows of one of TRL's micro-batches."""
    S_old, A = inputs.get("old_per_token_logps"), inputs["advantages"]
    A = A if A.ndim == 2 else A[:, None]
    return Rows(
        row=inputs["row"].cpu(),
        S=_float64(S),
        H=_float64(H),
        # TRL leaves it out if the sampling policy is the one that is updated.
        S_old=_float64(S if S_old is None else S_old),
        A=_float64(A.expand_as(S)),
        mask=counted_tokens(inputs).bool().cpu(),
        concentration=_optional(concentration),
        S_engine=_optional(inputs.get("sampling_per_token_logps")),
        S_ref=_optional(inputs.get("ref_per_token_logps")),
    )


def _optional(table: Tensor | None) -> Tensor | None:
    return None if table is None else _float64(table)


def _float64(table: Tensor) -> Tensor:
    return table.detach().cpu().double()


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows, padding shorter ones on the right."""
    longest = max(part.S.shape[1] for part in parts)

    def padded(x: Tensor) -> Tensor:
        return pad(x, (0, longest - x.shape[1])) if x.ndim == 2 else x

    def column(tables: Sequence[Tensor | None]) -> Tensor | None:
        if tables[0] is None:
            return None
        return torch.cat([padded(x) for x in tables if x is not None])

    return Rows(*(column(tables) for tables in zip(*parts, strict=True)))  # type: ignore[arg-type]


def sort_rows(rows: Rows) -> Rows:
    """Sort rows by their index in the window, whichever process had them."""
    order = rows.row.argsort()
    return Rows(*(None if x is None else x[order] for x in rows))  # type: ignore[arg-type]


def token_tables(
    rows: Rows, *, group_size: int, length_limit: int, seed: int, progress: float
) -> TokenTables:
    """Return the tables that an intervention reads."""
    return TokenTables(
        S=rows.S,
        H=rows.H,
        S_old=rows.S_old,
        A=rows.A,
        mask=rows.mask,
        group=rows.row // group_size,
        length_limit=length_limit,
        concentration=rows.concentration,
        S_engine=rows.S_engine,
        S_ref=rows.S_ref,
        seed=seed,
        progress=progress,
    )


class LossGradient(NamedTuple):
    """Loss of a batch, and its derivatives with respect to the tables of each token."""

    alpha: Float[Tensor, "B T"]  #: $-\partial L/\partial S$.
    gamma: Float[Tensor, "B T"]  #: $-\partial L/\partial H$.
    changed: Bool[Tensor, "B T"]
    r"""Whether $\alpha$ or $\gamma$ differs from plain Dr-GRPO's."""
    loss: float  #: $L$ itself.

    def at(self, rows: Int[Tensor, " n"], length: int) -> "LossGradient":
        """Return the derivatives of some rows, cut to the length of their padding."""
        alpha, gamma, changed = (x[rows, :length] for x in self[:3])
        return LossGradient(alpha, gamma, changed, self.loss)


def loss_gradient(chosen: Intervention, tables: TokenTables) -> LossGradient:
    """Return the loss of an intervention and its derivatives."""
    alpha, gamma = chosen.coefficients(tables)
    plain = intervention(PLAIN).coefficients(tables).alpha
    differs = (alpha - plain).abs() > CHANGED * torch.maximum(alpha.abs(), plain.abs())
    # Plain Dr-GRPO has no weight on entropies.
    changed = differs | (gamma != 0)
    return LossGradient(alpha, gamma, changed, float(chosen.loss(tables)))


@contextmanager
def lookahead_mode(trainer: Any) -> Iterator[None]:
    """Run a forward pass ahead of the step: no gradients, random state restored."""
    # Dropout then drops the same units in both passes, so that both see one policy.
    device = trainer.accelerator.device
    devices = [] if device.type == "cpu" else [device]
    with (
        torch.random.fork_rng(devices=devices, device_type=device.type),
        torch.no_grad(),
        # Recomputing activations without gradients is a waste, and torch warns of it.
        disable_gradient_checkpointing(
            trainer.model, trainer.args.gradient_checkpointing_kwargs
        ),
    ):
        yield


def lookahead_rows(
    trainer: Any, inputs: Mapping[str, Any], *, concentration: bool
) -> Rows:
    """Return the rows of a micro-batch under the current policy."""
    response = inputs["completion_ids"]
    tokens = torch.cat([inputs["prompt_ids"], response], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    T = response.shape[1]
    with _last_hidden_states(trainer, concentration) as hidden:
        # TRL's own method, so that S and H are those of the step to the bit.
        S, H, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            tokens,
            mask,
            T,
            compute_entropy=True,
            **{name: inputs[name] for name in _MEDIA_INPUTS if name in inputs},
        )
    if not hidden:
        return micro_batch_rows(inputs, S, H)
    # A token is drawn from the distribution at the position before it.
    counted = inputs["completion_mask"].bool()
    surplus = _surplus(trainer, hidden[0][:, -T - 1 : -1], counted)
    return micro_batch_rows(inputs, S, H, surplus)


@contextmanager
def _last_hidden_states(trainer: Any, wanted: bool) -> Iterator[list[Tensor]]:
    collected: list[Tensor] = []
    if not wanted:
        yield collected
        return

    def collect(module: Any, arguments: Any, output: Any) -> None:
        collected.append(output.last_hidden_state)

    # TRL returns no hidden states; a hook on the stack of layers sees them.
    body = trained_policy(trainer, "concentration").body
    handle = body.register_forward_hook(collect)
    try:
        yield collected
    finally:
        handle.remove()


def _surplus(
    trainer: Any, hidden: Float[Tensor, "B T C"], counted: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    r"""Return $\sum_v p_v^2(\log p_v + H)$ before each counted token."""
    policy = trained_policy(trainer, "concentration")
    head = vocabulary_head(policy, trainer.temperature)
    h = hidden[counted].to(head.weight)
    surplus = h.new_zeros(counted.shape)
    surplus[counted] = head.concentration(h)[1]
    return surplus
