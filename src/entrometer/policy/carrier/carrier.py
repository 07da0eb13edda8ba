r"""A model that carries tangents: the fast forward-mode derivative of hidden states.

Hidden states carry $1 + D$ blocks along the batch axis, the primal and its tangents
along D directions, and the model's own forward runs on the stack. That is exact because
in the known architectures all that is not one of four kinds of module (linear, norm,
gated MLP, attention) is linear in the hidden states: sums, views, rotary products. The
four get explicit rules, set on the loaded modules and taken off afterwards. Nothing is
differentiated automatically, so every product is shared by all directions.

Nothing in torch would notice a nonlinear operation outside the rules. So models are
allowed by name, and `passes.jvp` holds each against forward-mode AD once.
"""

# Axes: M = 1 + D blocks, B sequences, T tokens, C features.

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from entrometer.calculus import Vector
from entrometer.errors import ShapeMismatch
from entrometer.policy.architectures import (
    GATED_MLP,
    NORMS,
    UnknownArchitecture,
    kind,
    require_known,
)
from entrometer.policy.attention import require_no_other_terms
from entrometer.policy.carrier.linear import (
    AdapterTangent,
    LinearRule,
    adapter,
    adapter_parameters,
    is_adapted,
)
from entrometer.policy.carrier.rules import attention_rule, gated_rule, norm_rule
from entrometer.policy.policy import Policy

NAME = "entrometer_carrier"


class Carrier:
    """Rules set on the modules of a policy for some directions."""

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        """Make the rules; raises `UnknownArchitecture` where one is missing."""
        require_known(policy.base, "tangent rules")
        self.policy = policy
        self.blocks = 1 + len(directions)
        self.forwards: dict[nn.Module, Callable[..., Tensor]] = {}
        names = {module: name for name, module in policy.model.named_modules()}
        covered: set[str] = set()
        inside: set[nn.Module] = set()
        for module in policy.body.modules():
            if module in inside:
                continue
            if is_adapted(module):
                adapter(module)  # refuses what is not plain before it is looked into
                inside.update(module.modules())
                halves = {
                    f"{names[module]}.{name}": p
                    for name, p in adapter_parameters(module).items()
                }
                tangents = [_adapter_tangent(halves, v) for v in directions]
                covered.update(halves)
                self.forwards[module] = partial(
                    _linear, self.blocks, LinearRule(module, tangents)
                )
            elif isinstance(module, nn.Linear):
                self.forwards[module] = partial(
                    _linear, self.blocks, LinearRule(module, [])
                )
            elif kind(module) in NORMS:
                self.forwards[module] = partial(_norm, self.blocks)
            elif kind(module) in GATED_MLP:
                self.forwards[module] = partial(_gated, self.blocks)
        missing = {name for v in directions for name in v} - covered
        if missing:
            raise UnknownArchitecture(
                "expected directions on low-rank adapters of linear layers, got "
                f"{sorted(missing)[0]!r} and {len(missing) - 1} others without a rule; "
                "use forward-mode differentiation"
            )

    def hidden(
        self, input_ids: Int[Tensor, "B T"], **inputs: Tensor
    ) -> Float[Tensor, "M B T C"]:
        """Last hidden states and their tangents along each direction."""
        body: Any = self.policy.body
        embedded = body.embed_tokens(input_ids)
        still = embedded.new_zeros(
            (self.blocks - 1) * len(embedded), *embedded.shape[1:]
        )
        repeated = {name: x.repeat(self.blocks, 1) for name, x in inputs.items()}
        states = body(
            inputs_embeds=torch.cat([embedded, still]), use_cache=False, **repeated
        ).last_hidden_state
        stacked: Tensor = states.unflatten(0, (self.blocks, -1))
        return stacked


# Forwards hold no carrier, which holds them: merged weights are free with it at once.


def _linear(blocks: int, rule: LinearRule, _: nn.Module, x: Tensor) -> Tensor:
    y = rule(x.reshape(blocks, -1, x.shape[-1]))
    return y.view(*x.shape[:-1], -1)


def _norm(blocks: int, norm: nn.Module, x: Tensor) -> Tensor:
    return norm_rule(norm, x.unflatten(0, (blocks, -1))).flatten(0, 1)


def _gated(blocks: int, mlp: Any, x: Tensor) -> Tensor:
    gate, up = (layer(x) for layer in (mlp.gate_proj, mlp.up_proj))
    split = [y.unflatten(0, (blocks, -1)) for y in (gate, up)]
    y = gated_rule(mlp.act_fn, *split).flatten(0, 1)
    out: Tensor = mlp.down_proj(y)
    return out


@contextmanager
def carrying(policy: Policy, directions: Sequence[Vector]) -> Iterator[Carrier]:
    """Set the rules for these directions, and take them off at the end."""
    carrier = Carrier(policy, directions)
    base: Any = policy.base
    implementation = base.config._attn_implementation
    before = {module: module.__dict__.get("forward") for module in carrier.forwards}
    attentions = [m for m in policy.body.modules() if kind(m).endswith("Attention")]
    try:
        for module, forward in carrier.forwards.items():
            module.forward = types.MethodType(forward, module)
        for module in attentions:
            module.__dict__["entrometer_blocks"] = carrier.blocks
        base.set_attn_implementation(NAME)
        with torch.no_grad():
            yield carrier
    finally:
        base.set_attn_implementation(implementation)
        for module, old in before.items():
            module.__dict__.pop("forward", None)
            if old is not None:
                module.forward = old
        for module in attentions:
            module.__dict__.pop("entrometer_blocks", None)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    require_no_other_terms(other)
    assert not dropout, "the model is in evaluation mode"
    blocks = module.__dict__["entrometer_blocks"]
    split = [x.unflatten(0, (blocks, -1)) for x in (query, key, value)]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = attention_rule(split[0], split[1], split[2], attention_mask, scale, softcap)
    return out.flatten(0, 1), None


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


def _adapter_tangent(halves: dict[str, Tensor], direction: Vector) -> AdapterTangent:
    for name, p in halves.items():
        if name in direction and direction[name].shape != p.shape:
            raise ShapeMismatch(
                f"parameter {name!r}: expected shape {tuple(p.shape)}, got "
                f"{tuple(direction[name].shape)}; take the direction of this policy"
            )
    A, B = (
        direction.get(name, torch.zeros_like(p)).to(p) for name, p in halves.items()
    )
    return A, B
