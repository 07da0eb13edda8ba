r"""Tangent rules on a loaded model: the fast forward-mode derivative of hidden states.

Hidden states hold $1 + D$ blocks along the batch axis, the primal and its tangents
along D directions, and the model's own forward runs on the stack. That is exact because
in the known architectures everything but four kinds of module (linear, norm, gated MLP,
attention) is linear in the hidden states: sums, views, rotary products. The four get
explicit rules, set on the loaded modules and removed afterwards. Nothing is
differentiated automatically, so every product is shared by all directions.

Nothing in torch would notice a nonlinear operation outside the rules. So models are
allowed by name, and `passes.jvp` compares each with forward-mode AD once.
"""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), B sequences,
# T tokens, C features, N rows.

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from transformers import AttentionInterface, AttentionMaskInterface

from entrometer.calculus import Vector
from entrometer.errors import ShapeMismatch
from entrometer.policy.adapted_linear import (
    AdapterTangent,
    LinearRule,
    LinearTangent,
    adapter,
    adapter_parameters,
    is_adapted,
)
from entrometer.policy.architectures import (
    GATED_MLP,
    NORMS,
    UnknownArchitecture,
    kind,
    norm_epsilon,
    norm_gain,
    require_known,
)
from entrometer.policy.attention import require_no_other_terms
from entrometer.policy.attention_keys import Mask, allowed_keys
from entrometer.policy.attention_tangents import attention_rule
from entrometer.policy.policy import Policy

_ATTENTION = "entrometer_tangents"


class TangentPropagator:
    """Tangent rules for the modules of a policy along some directions."""

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        """Build the rules; raises `UnknownArchitecture` where one is missing."""
        require_known(policy.base, "tangent rules")
        self.policy = policy
        self.blocks = 1 + len(directions)
        self.forwards: dict[nn.Module, Callable[..., Tensor]] = {}
        self.embedding: nn.Module = policy.body
        self.embedding_tangents: list[Tensor | None] = [None] * len(directions)
        moved = _MovedParameters(policy, directions)
        inside: set[nn.Module] = set()
        for module in policy.body.modules():
            if module in inside:
                continue
            # The forwards hold no reference to this object, which holds them: merged
            # weights are then freed with it at once, not by a later collection.
            if is_adapted(module):
                adapter(module)  # raises unless the adapter is plain
                inside.update(module.modules())
                rule = LinearRule(module, moved.of_linear(module))
                self.forwards[module] = partial(_linear, self.blocks, rule)
            elif isinstance(module, nn.Linear):
                rule = LinearRule(module, moved.of_linear(module))
                self.forwards[module] = partial(_linear, self.blocks, rule)
            elif kind(module) in NORMS:
                gains = moved.of(cast(Tensor, module.weight))
                self.forwards[module] = partial(_norm, self.blocks, gains)
            elif kind(module) in GATED_MLP:
                self.forwards[module] = partial(_gated, self.blocks)
            elif isinstance(module, nn.Embedding):
                tangents = moved.of(module.weight)
                # PEFT keeps the frozen original beside a trained copy.
                if any(dE is not None for dE in tangents):
                    self.embedding, self.embedding_tangents = module, tangents
        moved.require_all_covered()

    def hidden(
        self, input_ids: Int[Tensor, "B T"], **inputs: Tensor
    ) -> Float[Tensor, "M B T C"]:
        """Return the last hidden states and their tangents along each direction."""
        body: Any = self.policy.body
        embedded = body.embed_tokens(input_ids)
        # An embedding is linear in its weight, so its tangent is the embedding itself
        # with the weight's tangent, scaled as the model scales it.
        tangents = [
            torch.zeros_like(embedded)
            if dE is None
            else functional_call(self.embedding, {"weight": dE}, (input_ids,))
            for dE in self.embedding_tangents
        ]
        repeated = {name: x.repeat(self.blocks, 1) for name, x in inputs.items()}
        stack = torch.cat([embedded, *tangents])
        states = body(inputs_embeds=stack, use_cache=False, **repeated)
        return cast(Tensor, states.last_hidden_state.unflatten(0, (self.blocks, -1)))


class _MovedParameters:
    """Tangents of parameters, and which of them have got a rule."""

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        self.directions = directions
        # By identity: a weight that is tied between modules goes by its first name.
        self.names = {id(p): name for name, p in policy.model.named_parameters()}
        # The head has its own rule, in the passes.
        self.covered = {policy.head_name}

    def of(self, parameter: Tensor | None) -> list[Tensor | None]:
        """Return the parameter's tangent along each direction, None where it has none.

        Raises if one has another shape: broadcast, it would give numbers all the same.
        """
        name = self.names.get(id(parameter))
        tangents = [v.get(name) if name else None for v in self.directions]
        for dp in tangents:
            if dp is not None and parameter is not None and dp.shape != parameter.shape:
                raise ShapeMismatch(
                    f"parameter {name!r}: expected shape {tuple(parameter.shape)}, got "
                    f"{tuple(dp.shape)}; take the direction of this policy"
                )
        self.covered.add(name)
        return tangents

    def of_linear(self, module: nn.Module) -> list[LinearTangent]:
        """Return the tangents of a linear layer and of its adapter."""
        layer: Any = getattr(module, "base_layer", module)
        halves: list[AdapterTangent | None] = [None] * len(self.directions)
        if is_adapted(module):
            A, B = adapter_parameters(module).values()
            # A factor that rests has tangent 0, because the two are stacked.
            halves = [
                (
                    torch.zeros_like(A) if dA is None else dA.to(A),
                    torch.zeros_like(B) if dB is None else dB.to(B),
                )
                for dA, dB in zip(self.of(A), self.of(B), strict=True)
            ]
        each = zip(self.of(layer.weight), self.of(layer.bias), halves, strict=True)
        return [LinearTangent(*tangents) for tangents in each]

    def require_all_covered(self) -> None:
        """Raise if a direction moves a parameter for which no rule asked."""
        missing = {name for v in self.directions for name in v} - self.covered
        if missing:
            raise UnknownArchitecture(
                "expected directions on linear layers, their adapters, norms and the "
                f"embedding, got {min(missing)!r} and {len(missing) - 1} others "
                "without a rule; use forward-mode differentiation"
            )


@contextmanager
def tangent_rules(
    policy: Policy, directions: Sequence[Vector]
) -> Iterator[TangentPropagator]:
    """Set the rules for these directions on the model, and remove them at the end."""
    propagator = TangentPropagator(policy, directions)
    base: Any = policy.base
    implementation = base.config._attn_implementation
    before = {module: module.__dict__.get("forward") for module in propagator.forwards}
    attentions = [m for m in policy.body.modules() if kind(m).endswith("Attention")]
    try:
        for module, forward in propagator.forwards.items():
            module.forward = types.MethodType(forward, module)
        # Transformers hands its attention function the module and nothing of ours.
        for module in attentions:
            module.__dict__["entrometer_blocks"] = propagator.blocks
        base.set_attn_implementation(_ATTENTION)
        with torch.no_grad():
            yield propagator
    finally:
        base.set_attn_implementation(implementation)
        for module, old in before.items():
            module.__dict__.pop("forward", None)
            if old is not None:
                module.forward = old
        for module in attentions:
            module.__dict__.pop("entrometer_blocks", None)


def _linear(blocks: int, rule: LinearRule, _: nn.Module, x: Tensor) -> Tensor:
    y = rule(x.reshape(blocks, -1, x.shape[-1]))
    return y.view(*x.shape[:-1], -1)


def _norm(
    blocks: int, gains: Sequence[Tensor | None], norm: nn.Module, x: Tensor
) -> Tensor:
    return norm_rule(norm, x.unflatten(0, (blocks, -1)), gains).flatten(0, 1)


def _gated(blocks: int, mlp: Any, x: Tensor) -> Tensor:
    gate, up = (layer(x) for layer in (mlp.gate_proj, mlp.up_proj))
    split = [y.unflatten(0, (blocks, -1)) for y in (gate, up)]
    return cast(Tensor, mlp.down_proj(gated_rule(mlp.act_fn, *split).flatten(0, 1)))


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask,
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


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, allowed_keys)


def norm_rule(
    norm: nn.Module,
    x: Float[Tensor, "M *N C"],
    gain_tangents: Sequence[Float[Tensor, " C"] | None] = (),
) -> Float[Tensor, "M *N C"]:
    r"""RMSNorm $n = xr$, gain $g$: $gr(\dot x - n\overline{n\dot x}) + \dot gn$."""
    gain = norm_gain(norm).detach()
    primal = x[0]
    # A dot product of the row with itself makes no squared copy of the hidden states.
    mean_square = torch.linalg.vecdot(primal, primal)[..., None] / primal.shape[-1]
    r = torch.rsqrt(mean_square + norm_epsilon(norm))
    n = primal * r
    out = torch.empty_like(x)
    torch.mul(n, gain, out=out[0])
    if len(x) > 1:
        mean = torch.linalg.vecdot(n[None], x[1:])[..., None] / n.shape[-1]
        torch.addcmul(x[1:], n, mean, value=-1, out=out[1:])
        out[1:].mul_(r * gain)
    for tangent, dg in zip(out[1:], gain_tangents, strict=False):
        if dg is not None:
            tangent.addcmul_(n, dg)
    return out


def gated_rule(
    activation: nn.Module, gate: Float[Tensor, "M *N C"], up: Float[Tensor, "M *N C"]
) -> Float[Tensor, "M *N C"]:
    r"""Gated MLP: $y = f(g)u$, $\dot y = f'(g)\dot g u + f(g)\dot u$, in place."""
    backward = _activation_backward(activation)
    f = activation(gate[0])
    for d in range(1, len(gate)):
        sloped = backward(gate[d].mul_(up[0]), gate[0])
        torch.addcmul(sloped, f, up[d], out=up[d])
    # Last, because every tangent above needs the primal of `up`.
    up[0].mul_(f)
    return up


def _activation_backward(activation: nn.Module) -> Any:
    r"""Return $(\dot g, g) \mapsto f'(g)\dot g$."""
    # f acts on each element, so its Jacobian is diagonal and torch's fused backward
    # kernel computes the tangent as well.
    aten: Any = torch.ops.aten
    name = kind(activation)
    if name in ("SiLU", "SiLUActivation"):
        return aten.silu_backward
    if name in ("GELUTanh", "PytorchGELUTanh"):
        return partial(aten.gelu_backward, approximate="tanh")
    if name == "GELUActivation":
        return aten.gelu_backward
    raise UnknownArchitecture(
        f"expected a SiLU or GELU gate, got {name}; use forward-mode differentiation"
    )
