r"""Mixtures of experts, with derivatives of all kinds.

A router gives each token its experts $e$ and their weights $w_e$, and the layer is
$y = \sum_e w_e f_e(x)$ with $f_e(x) = D_e\,g(G_ex)$, $g$ the gated activation. Which
experts are chosen has no derivative: tangents go through those of the primal,

$$\dot y = \sum_e w_e\dot f_e + \dot w_e f_e.$$
"""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), N tokens, K experts
# of a token, n tokens of one expert, I inputs, O outputs, C features.

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, jvp
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from entrometer.policy.adapted_parameters import MovedParameter
from entrometer.policy.products import product

DIFFERENTIABLE = "entrometer"  #: Name under which transformers finds `experts`.

Routed = tuple[Tensor, Tensor, Tensor]
"""A router's logits, the weights of the chosen experts, and which were chosen."""


def experts(
    module: Any,
    x: Float[Tensor, "N C"],
    chosen: Int[Tensor, "N K"],
    weights: Float[Tensor, "N K"],
) -> Float[Tensor, "N C"]:
    """Return the weighted sum of each token's experts."""
    # Out of place: transformers' own adds into zeros, which have no forward derivative,
    # and its grouped products have no derivative of that kind either.
    parts, order = [], []
    for expert, pairs in _by_expert(chosen):
        h = _linear(module, "gate_up_proj", expert, x[pairs // chosen.shape[1]])
        parts.append(_linear(module, "down_proj", expert, module._apply_gate(h)))
        order.append(pairs)
    y = torch.cat(parts)[torch.cat(order).argsort()]
    y = y.view(*chosen.shape, -1) * weights[..., None]
    return y.sum(1).to(x.dtype)


ALL_EXPERTS_FUNCTIONS.register(DIFFERENTIABLE, experts)


def _by_expert(chosen: Int[Tensor, "N K"]) -> Iterator[tuple[int, Tensor]]:
    """Yield each expert that some token has, with the places of its pairs in order."""
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    numbers, counts = flat.unique(return_counts=True)
    parts = order.split(counts.tolist())
    return zip(numbers.tolist(), parts, strict=True)


def _linear(module: Any, name: str, expert: int, x: Tensor) -> Tensor:
    y = product(x, _matrix(module, getattr(module, name)[expert]))
    return y + getattr(module, f"{name}_bias")[expert] if module.has_bias else y


def _matrix(module: Any, weight: Tensor) -> Float[Tensor, "I O"]:
    return weight if module.is_transposed else weight.T


class ExpertsRule:
    """The experts of one layer, and their tangents."""

    def __init__(
        self, module: nn.Module, parameters: dict[str, MovedParameter]
    ) -> None:
        """Take all parameters of the layer's experts."""
        self.module: Any = module
        self.parameters = parameters

    def __call__(
        self,
        x: Float[Tensor, "M N C"],
        chosen: Int[Tensor, "N K"],
        weights: Float[Tensor, "M N K"],
    ) -> Float[Tensor, "M N C"]:
        """Return the weighted sums in block 0 and their tangents in the others."""
        out = torch.zeros_like(x)
        K = chosen.shape[1]
        for expert, pairs in _by_expert(chosen):
            tokens = pairs // K
            h = self._linear("gate_up_proj", expert, x[:, tokens])
            h = _pushed(self.module._apply_gate, h)
            y = self._linear("down_proj", expert, h)
            w = weights.flatten(1)[:, pairs, None]
            # A token has an expert at most once.
            out[0, tokens] += w[0] * y[0]
            out[1:, tokens] += w[0] * y[1:] + w[1:] * y[0]
        return out

    def _linear(
        self, name: str, expert: int, x: Float[Tensor, "M n I"]
    ) -> Float[Tensor, "M n O"]:
        W, dW = self.parameters[name].of(expert)
        y = product(x, _matrix(self.module, W)).to(x.dtype)
        for dy, moved in zip(y[1:], dW, strict=True):
            if moved is not None:
                dy.addmm_(x[0], _matrix(self.module, moved))
        if self.module.has_bias:
            b, db = self.parameters[f"{name}_bias"].of(expert)
            y[0] += b
            for dy, moved in zip(y[1:], db, strict=True):
                if moved is not None:
                    dy.add_(moved)
        return y


def _pushed(
    f: Callable[[Tensor], Tensor], x: Float[Tensor, "M n I"]
) -> Float[Tensor, "M n O"]:
    """Return a function of block 0 and its tangents along the other blocks."""
    if len(x) == 1:
        return f(x[0])[None]
    pairs = [jvp(f, (x[0],), (dx,))[:2] for dx in x[1:]]
    return torch.stack([pairs[0][0], *(dy for _, dy in pairs)])


class RouterRule:
    """One router and the tangents of its weights, by forward-mode AD.

    Its logits are few, and routers differ in how they make weights of them.
    """

    def __init__(
        self, own: "OwnForward", parameters: dict[str, MovedParameter]
    ) -> None:
        """Take a router's own forward, and all its parameters."""
        self.own = own
        whole = {f"router.{n}": p.whole() for n, p in parameters.items()}
        self.values = {n: value for n, (value, _) in whole.items()}
        self.tangents = {n: tangents for n, (_, tangents) in whole.items()}

    def __call__(self, x: Float[Tensor, "M N C"]) -> Routed:
        """Return logits and weights by block, and the primal's choice for each."""

        def route(p: dict[str, Tensor], x: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            logits, weights, chosen = functional_call(self.own, p, (x,))
            return (logits, weights), chosen

        if len(x) == 1:
            (logits, weights), chosen = route(self.values, x[0])
            return logits, weights, chosen
        blocks: list[tuple[Tensor, ...]] = []
        for d, dx in enumerate(x[1:]):
            dp = {
                n: torch.zeros_like(self.values[n]) if dv[d] is None else dv[d]
                for n, dv in self.tangents.items()
            }
            push: Any = jvp  # Its type leaves out what `has_aux` adds.
            primal, tangent, chosen = push(
                route, (self.values, x[0]), (dp, dx), has_aux=True
            )
            blocks.extend([primal, tangent] if d == 0 else [tangent])
        logits, weights = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        return logits, weights, chosen.repeat(len(x), 1)


class OwnForward(nn.Module):
    """Calls a router's own forward, with parameters that can be replaced."""

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.router = router
        # As it is now: the rule takes its place.
        self.route: Callable[[Tensor], Routed] = router.forward

    def forward(self, x: Tensor) -> Routed:
        """Return what the router returns."""
        return self.route(x)
