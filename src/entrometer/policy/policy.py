"""A loaded language model, as the passes see it, and the same model moved a step."""

# Axes: B sequences, T tokens, C features, V vocabulary.

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from entrometer.calculus import Vector
from entrometer.calculus.vectors import check_layout
from entrometer.errors import InvalidValue
from entrometer.policy.architectures import UnknownArchitecture, kind
from entrometer.policy.fused_attention import shared_row
from entrometer.policy.precision import Precision
from entrometer.policy.shared_prompts import SharedPrompts

Value = TypeVar("Value")

_LOGIT_FACTORS = ("logit_scale", "lm_head_multiplier")
"""Settings by which Cohere's and Falcon's models multiply their logits."""


@dataclass(frozen=True, eq=False)
class Policy:
    """A causal language model in evaluation mode.

    The parameters that require a gradient are the trained ones: an adapter's, or all.
    """

    model: nn.Module  #: A transformers model, or a PEFT model around one.
    tokenizer: Any  #: The model's transformers tokenizer.
    precision: Precision  #: Precision that the model computes in.
    source: str  #: Name or path that the policy was loaded from.
    mesh: DeviceMesh | None = None
    """Group of processes that share the parameters by rows; None if all are here."""
    root: nn.Module | None = None
    """Module around the model whose calls gather shards; None without a group."""

    @property
    def base(self) -> nn.Module:
        """The transformers model itself, adapters inside."""
        get: Any = getattr(self.model, "get_base_model", None)
        return get() if get is not None else self.model

    @property
    def body(self) -> nn.Module:
        """The stack of layers that turns tokens into last hidden states."""
        return cast(nn.Module, self.base.base_model)

    @property
    def device(self) -> torch.device:
        """Device of the embedding, which inputs have to be on."""
        return next(self.model.parameters()).device

    @property
    def vocabulary(self) -> int:
        """Number of token ids that the embedding has a row for."""
        base: Any = self.base
        embedding = base.get_input_embeddings()
        # An adapter on the embedding wraps it.
        return int(getattr(embedding, "base_layer", embedding).num_embeddings)

    def within(self, call: Callable[[], Value]) -> Value:
        """Return the value of a function that computes with the model's weights.

        All processes of a group have to call this, as often as each other.
        """
        return call() if self.root is None else cast(Value, self.root(call))

    def trained(self) -> dict[str, Tensor]:
        """Return the trained parameters by name, detached, sharing the model's memory.

        A weight tied between two places appears once, under its first name. In a group,
        tensors have the rows of this process.
        """
        parameters = self.model.named_parameters()
        return {name: p.detach() for name, p in parameters if p.requires_grad}

    @property
    def head_name(self) -> str | None:
        """Name of the head's weight among trained parameters; None if it is frozen."""
        # Compared by identity: a head that is tied to the embedding goes by the
        # embedding's name.
        weight: Any = self._output_layer.weight
        for name, p in self.model.named_parameters():
            if p is weight and p.requires_grad:
                return name
        return None

    @property
    def head_weight(self) -> Float[Tensor, "V C"]:
        """Weight of the layer that turns hidden states into logits.

        In a group it is there only within a call (`within`).
        """
        return cast(Tensor, self._output_layer.weight.detach())

    @property
    def softcap(self) -> float | None:
        """Soft cap of the final logits; None if the architecture has none."""
        config: Any = self.base.config
        cap = getattr(config, "final_logit_softcapping", None)
        return None if cap is None else float(cap)

    @property
    def logit_scale(self) -> float:
        """Factor between the head's output and the logits."""
        config: Any = self.base.config
        divisor = getattr(config, "logits_scaling", None) or 1.0
        factors = (getattr(config, name, None) or 1.0 for name in _LOGIT_FACTORS)
        return float(math.prod(factors) / divisor)

    def hidden(
        self,
        input_ids: Int[Tensor, "B T"],
        *,
        shared: SharedPrompts | None = None,
        **inputs: Tensor,
    ) -> Float[Tensor, "B T C"]:
        """Return the last hidden states, of a row with `shared` prompts if given."""
        with shared_row(self.base, shared):
            states = self.body(input_ids=input_ids, use_cache=False, **inputs)
        return cast(Tensor, states.last_hidden_state)

    @property
    def _output_layer(self) -> Any:
        base: Any = self.base
        # The passes compute logits themselves, from the head's weight.
        layer = base.get_output_embeddings()
        if getattr(layer, "bias", None) is not None or hasattr(layer, "lora_A"):
            raise UnknownArchitecture(
                "expected a vocabulary head without bias and without adapter, got "
                f"{kind(layer)}; train adapters on the layers below it"
            )
        return layer


@contextmanager
def padding_row(policy: Policy, row: int | None) -> Iterator[None]:
    """Drop the gradient of a row of the embedding as an input, as training did.

    Torch does so for the padding token, also where it stands inside a text. Derivatives
    of the policy keep the row; only the gradient of a training's step lacks it.
    """
    base: Any = policy.base
    embedding = base.get_input_embeddings()
    embedding = getattr(embedding, "base_layer", embedding)
    before, embedding.padding_idx = embedding.padding_idx, row
    try:
        yield
    finally:
        embedding.padding_idx = before


@contextmanager
def moved(policy: Policy, direction: Vector, eta: float) -> Iterator[Policy]:
    r"""Move the policy to $\theta + \eta v$ in this context; then restore every bit.

    `direction` may name all trained parameters or some; the others stay.
    """
    require_unmerged(policy)
    trained = policy.trained()
    here = {name: trained[name] for name in direction if name in trained}
    check_layout(here, direction)
    # A copy: subtracting the step again would leave a rounding error behind.
    before = {name: p.clone() for name, p in here.items()}
    try:
        with torch.no_grad():
            for name, p in here.items():
                v = direction[name].to(device=p.device, dtype=p.dtype)
                p.add_(v, alpha=eta)
        yield policy
    finally:
        with torch.no_grad():
            for name, p in here.items():
                p.copy_(before[name])


def require_unmerged(policy: Policy) -> None:
    """Raise for merged adapters: moving or differentiating them would do nothing."""
    for name, module in policy.model.named_modules():
        if hasattr(module, "base_layer") and getattr(module, "merged", False):
            raise InvalidValue(
                f"expected unmerged adapters, got a merged one at {name}, where it has "
                "no effect; call model.unmerge_adapter()"
            )
