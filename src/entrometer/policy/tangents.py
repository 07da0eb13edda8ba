r"""Tangent rules on a loaded model: the fast forward-mode derivative of hidden states.

Hidden states hold $1 + D$ blocks along the batch axis, the primal and its tangents
along D directions, and the model's own forward runs on the stack. That is exact because
in the known architectures everything but a few kinds of module (linear, norm, gated
MLP, attention, in mixtures routers and experts) is linear in the hidden states: sums,
views, rotary products. Those get explicit rules, set on the loaded modules and removed
afterwards. Nothing large is differentiated automatically, so every product is shared by
all directions.

Nothing in torch would notice a nonlinear operation outside the rules. So models are
allowed by name, and `passes.jvp` compares each with forward-mode AD once.
"""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), B sequences,
# T tokens, C features, N rows.

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from transformers import AttentionInterface, AttentionMaskInterface

from entrometer.calculus import Vector
from entrometer.policy.adapted_linear import LinearRule, adapter, is_adapted
from entrometer.policy.adapted_parameters import is_wrapper, unwrapped
from entrometer.policy.architectures import (
    EXPERTS,
    GATED_MLP,
    NORMS,
    ROUTERS,
    UnknownArchitecture,
    kind,
    require_known,
)
from entrometer.policy.attention import require_no_other_terms
from entrometer.policy.attention_keys import Mask, SharedKeys, allowed_keys
from entrometer.policy.attention_tangents import attention_rule
from entrometer.policy.forwards import replaced_forwards
from entrometer.policy.fused_attention import shared_row
from entrometer.policy.mixtures import ExpertsRule, OwnForward, Routed, RouterRule
from entrometer.policy.module_tangents import gated_rule, norm_rule
from entrometer.policy.parameter_tangents import ParameterTangents
from entrometer.policy.policy import Policy
from entrometer.policy.sharding import from_weights
from entrometer.policy.shared_attention import by_segments
from entrometer.policy.shared_prompts import SharedPrompts

_ATTENTION = "entrometer_tangents"


class TangentPropagator:
    """Tangent rules for the modules of a policy along some directions."""

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        """Build the rules; raises `UnknownArchitecture` where one is missing."""
        require_known(policy.base, "tangent rules")
        self.policy = policy
        self.blocks = 1 + len(directions)
        self.forwards: dict[nn.Module, Callable[..., Any]] = {}
        self.attentions: dict[nn.Module, Callable[[], Tensor | None]] = {}
        """With the function that returns their sinks."""
        self.embedding: nn.Embedding | None = None
        moved = self.moved = ParameterTangents(policy, directions)
        inside: set[nn.Module] = set()
        for module in policy.body.modules():
            if module in inside:
                continue
            if is_wrapper(module):
                base, wrappers = unwrapped(module)
                inside.update(module.modules())
                self._mix(module, base, wrappers)
            elif is_adapted(module):
                adapter(module)  # raises unless the adapter is plain
                inside.update(module.modules())
                self._set(module, _linear, partial(_linear_rule, module, moved))
            elif isinstance(module, nn.Linear):
                self._set(module, _linear, partial(_linear_rule, module, moved))
            elif kind(module) in NORMS:
                self._set(module, _norm, partial(moved.of, module, "weight"))
            elif kind(module) in GATED_MLP:
                self.forwards[module] = partial(_gated, self.blocks)
            elif kind(module) in ROUTERS | EXPERTS:
                self._mix(module, module, {})
            elif kind(module).endswith("Attention"):
                moved.cover(module)
                sinks = partial(moved.of_sinks, module)
                self.attentions[module] = from_weights(policy, sinks)
            elif isinstance(module, nn.Embedding):
                moved.cover(module)
                # PEFT keeps the frozen original beside a trained copy.
                if moved.move(module):
                    self.embedding = module
        moved.require_all_covered()

    def _set(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        make: Callable[[], Any],
    ) -> None:
        """Set a module's forward, by a rule that is made of its weights."""
        self.moved.cover(*module.modules())
        # The forwards hold no reference to this object, which holds them: merged
        # weights are then freed with it at once, not by a later collection.
        rule = from_weights(self.policy, make)
        self.forwards[module] = partial(forward, self.blocks, rule)

    def _mix(
        self, outer: nn.Module, module: nn.Module, wrappers: Mapping[str, Any]
    ) -> None:
        own = partial(self.moved.of_all, module, wrappers)
        if kind(module) in ROUTERS:
            # As it is now: the rule takes its place.
            forward = OwnForward(module)
            self._set(outer, _route, lambda: RouterRule(forward, own()))
        elif kind(module) in EXPERTS:
            self._set(outer, _experts, lambda: ExpertsRule(module, own()))
        else:
            raise UnknownArchitecture(
                "expected adapters on linear layers, routers and experts, got one on "
                f"{kind(module)}; use forward-mode differentiation"
            )

    def hidden(
        self,
        input_ids: Int[Tensor, "B T"],
        *,
        shared: SharedPrompts | None = None,
        **inputs: Tensor,
    ) -> Float[Tensor, "M B T C"]:
        """Return the last hidden states and their tangents along each direction."""
        body: Any = self.policy.body
        embedded = body.embed_tokens(input_ids)
        # An embedding is linear in its weight, so its tangent is the embedding itself
        # with the weight's tangent, scaled as the model scales it.
        tangents = [torch.zeros_like(embedded) for _ in range(self.blocks - 1)]
        if self.embedding is not None:
            for d, dE in enumerate(self.moved.of(self.embedding, "weight")):
                if dE is not None:
                    tangents[d] = functional_call(
                        self.embedding, {"weight": dE}, (input_ids,)
                    )
        repeated = {name: x.repeat(self.blocks, 1) for name, x in inputs.items()}
        stack = torch.cat([embedded, *tangents])
        with shared_row(self.policy.base, shared):
            states = body(inputs_embeds=stack, use_cache=False, **repeated)
        return cast(Tensor, states.last_hidden_state.unflatten(0, (self.blocks, -1)))


@contextmanager
def tangent_rules(
    policy: Policy, directions: Sequence[Vector]
) -> Iterator[TangentPropagator]:
    """Set the rules for these directions on the model, and remove them at the end."""
    propagator = TangentPropagator(policy, directions)
    base: Any = policy.base
    implementation = base.config._attn_implementation
    try:
        # Transformers hands its attention function the module and nothing of ours.
        for module, sinks in propagator.attentions.items():
            module.__dict__["entrometer_blocks"] = (propagator.blocks, sinks)
        base.set_attn_implementation(_ATTENTION)
        with replaced_forwards(propagator.forwards), torch.no_grad():
            yield propagator
    finally:
        base.set_attn_implementation(implementation)
        for module in propagator.attentions:
            module.__dict__.pop("entrometer_blocks", None)


def _linear_rule(module: nn.Module, moved: ParameterTangents) -> LinearRule:
    return LinearRule(module, moved.of_linear(module))


def _linear(
    blocks: int, rule: Callable[[], LinearRule], _: nn.Module, x: Tensor
) -> Tensor:
    y = rule()(x.reshape(blocks, -1, x.shape[-1]))
    return y.view(*x.shape[:-1], -1)


def _norm(
    blocks: int,
    gains: Callable[[], Sequence[Tensor | None]],
    norm: nn.Module,
    x: Tensor,
) -> Tensor:
    return norm_rule(norm, x.unflatten(0, (blocks, -1)), gains()).flatten(0, 1)


def _gated(blocks: int, mlp: Any, x: Tensor) -> Tensor:
    # Phi and GLM compute gate and up in one product.
    if hasattr(mlp, "gate_up_proj"):
        gate, up = mlp.gate_up_proj(x).chunk(2, dim=-1)
        activation = mlp.activation_fn
    else:
        gate, up, activation = mlp.gate_proj(x), mlp.up_proj(x), mlp.act_fn
    split = [y.unflatten(0, (blocks, -1)) for y in (gate, up)]
    return cast(Tensor, mlp.down_proj(gated_rule(activation, *split).flatten(0, 1)))


def _route(
    blocks: int, rule: Callable[[], RouterRule], _: nn.Module, x: Tensor
) -> Routed:
    # A router may get tokens in a row or in sequences.
    return rule()(x.reshape(blocks, -1, x.shape[-1]))


def _experts(
    blocks: int,
    rule: Callable[[], ExpertsRule],
    _: nn.Module,
    x: Tensor,
    chosen: Tensor,
    weights: Tensor,
) -> Tensor:
    split = [y.unflatten(0, (blocks, -1)) for y in (x, weights)]
    N = len(x) // blocks
    return rule()(split[0], chosen[:N], split[1]).flatten(0, 1)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    require_no_other_terms(other)
    assert not dropout, "the model is in evaluation mode"
    blocks, make_sinks = module.__dict__["entrometer_blocks"]
    sinks = make_sinks()
    assert (s_aux is None) == (sinks is None), "the module's sinks are those passed on"
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        q, k, v = (x.unflatten(0, (blocks, -1)) for x in (q, k, v))
        return attention_rule(q, k, v, mask, scale, softcap, sinks).flatten(0, 1)

    if isinstance(attention_mask, SharedKeys):
        return by_segments(attend, query, key, value, attention_mask), None
    return attend(query, key, value, attention_mask), None


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, allowed_keys)
