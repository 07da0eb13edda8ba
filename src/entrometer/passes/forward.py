"""Forward passes: S and H of every token, and checks that all passes share."""

# Axes: K tokens of all responses (layout: Responses).

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.calculus import Vector
from entrometer.calculus.sharded import mesh_of
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch, nearest_name
from entrometer.estimators import Tables
from entrometer.passes.batches import TOKEN_BUDGET, Batch, Padding
from entrometer.passes.columns import Columns, own_batches
from entrometer.passes.head import VocabularyHead
from entrometer.policy.architectures import KNOWN, UnknownArchitecture, kind
from entrometer.policy.policy import Policy, moved, require_unmerged
from entrometer.policy.sharding import from_weights
from entrometer.runs.rollouts import Rollouts


def forward(
    policy: Policy,
    rollouts: Rollouts,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> Tables:
    r"""Return log-prob $S_k$ and whole-vocabulary entropy $H_k$ of each response token.

    At the temperature that the rollouts were sampled with, which is part of the policy.
    """
    make_head = head_of(policy, rollouts)

    def scored(batch: Batch) -> tuple[Tensor, Tensor]:
        head = make_head()
        h = batch.at_scored(policy.hidden(batch.input_ids, **batch.inputs))
        return head.forward(h.to(head.weight), batch.targets)

    columns = Columns(policy, rollouts, 2)
    with torch.no_grad():
        for batch in own_batches(policy, rollouts, budget, padding):
            columns.fill(batch, policy.within(partial(scored, batch)))
    return Tables(*columns.filled())


def forward_along(
    policy: Policy,
    rollouts: Rollouts,
    direction: Vector,
    etas: Sequence[float],
    *,
    budget: int = TOKEN_BUDGET,
) -> list[Tables]:
    r"""Return the tables of `forward` at $\theta + \eta v$ for each $\eta$."""
    tables = []
    for eta in etas:
        # In place and put back to the bit: a copy of the model may not fit the device.
        with moved(policy, direction, eta) as there:
            tables.append(forward(there, rollouts, budget=budget))
    return tables


class Concentration(NamedTuple):
    """Sums over the vocabulary, of probabilities $p_v$ before each response token."""

    squared: Float[np.ndarray, " K"]
    r"""$\sum_v p_v^2$, the chance that two draws are the same token."""

    surplus: Float[np.ndarray, " K"]
    r"""$\sum_v p_v^2(\log p_v + H)$."""


def concentration(
    policy: Policy,
    rollouts: Rollouts,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> Concentration:
    r"""Return $\sum_v p_v^2$ and $\sum_v p_v^2(\log p_v + H)$ of each response token.

    `tabular_softmax` needs the second besides S and H: one step on the logit of a token
    takes probability from all others in proportion to theirs.
    """
    make_head = head_of(policy, rollouts)

    def sums(batch: Batch) -> tuple[Tensor, Tensor]:
        head = make_head()
        h = batch.at_scored(policy.hidden(batch.input_ids, **batch.inputs))
        return head.concentration(h.to(head.weight))

    columns = Columns(policy, rollouts, 2)
    with torch.no_grad():
        for batch in own_batches(policy, rollouts, budget, padding):
            columns.fill(batch, policy.within(partial(sums, batch)))
    return Concentration(*columns.filled())


def head_of(policy: Policy, rollouts: Rollouts) -> Callable[[], VocabularyHead]:
    """Return the function that makes the policy's head, to be called within the policy.

    At the temperature of the rollouts. Raises if they were sampled with top-k or top-p,
    or if the policy is in training mode. Which model sampled them is not checked.
    """
    # Every pass needs the head, so the checks that all passes share are here.
    sampler = rollouts.sampler
    if sampler.top_k != 0 or sampler.top_p != 1.0:
        raise InvalidValue(
            "expected responses sampled from the whole vocabulary, got "
            f"top_k={sampler.top_k}, top_p={sampler.top_p}; that is another policy: "
            "sample with top_k=0 and top_p=1"
        )
    if policy.model.training:
        raise InvalidValue(
            "expected a policy in evaluation mode, got one in training mode, where "
            "dropout makes every pass another; call policy.model.eval()"
        )
    require_logits_of_head(policy)
    return from_weights(policy, partial(vocabulary_head, policy, sampler.temperature))


def vocabulary_head(policy: Policy, temperature: float) -> VocabularyHead:
    """Return the policy's head at a temperature."""
    weight = policy.head_weight
    return VocabularyHead(
        # A log-prob in bfloat16 has two digits: float32 at least.
        weight=weight.to(torch.promote_types(weight.dtype, torch.float32)),
        softcap=policy.softcap,
        temperature=temperature / policy.logit_scale,
    )


_CHECKED: WeakSet[nn.Module] = WeakSet()


def require_logits_of_head(policy: Policy) -> None:
    """Raise unless the model's logits are what the passes take them to be."""
    if policy.model in _CHECKED or kind(policy.base) in KNOWN:
        return
    ids = torch.arange(8, device=policy.device)[None] % policy.vocabulary
    with torch.no_grad():
        logits = policy.model(input_ids=ids, use_cache=False).logits
        ours = policy.hidden(ids) @ policy.head_weight.T * policy.logit_scale
        if policy.softcap is not None:
            ours = torch.tanh(ours / policy.softcap) * policy.softcap
    error = (ours - logits).norm() / logits.norm()
    # Far above rounding, far below a factor that some setting multiplies by.
    if not error <= 0.02:
        raise UnknownArchitecture(
            f"expected logits that are the head times the last hidden states, got "
            f"{kind(policy.base)}, whose logits are others (relative difference "
            f"{error:.2g}); it has no rule here"
        )
    _CHECKED.add(policy.model)


def aligned(policy: Policy, directions: Sequence[Vector]) -> list[dict[str, Tensor]]:
    """Return the directions in the policy's precision, each with the names of all.

    A parameter that one direction does not name has tangent 0 along it.
    """
    if not directions:
        raise InvalidValue(
            "expected at least one direction, got none; pass an update vector"
        )
    require_differentiable(policy)
    trained = policy.trained()
    named = {name for v in directions for name in v}
    for name in sorted(named - set(trained)):
        raise MissingKey(
            f"expected names of trained parameters, got {name!r}, which is unknown or "
            f"frozen.{nearest_name(name, trained)}"
        )
    for v in directions:
        for name, x in v.items():
            if x.shape != trained[name].shape:
                raise ShapeMismatch(
                    f"parameter {name!r}: expected shape {tuple(trained[name].shape)}, "
                    f"got {tuple(x.shape)}; take the direction of this policy"
                )
            if mesh_of(x) != policy.mesh:
                raise ShapeMismatch(
                    f"parameter {name!r}: expected a direction in the policy's shards, "
                    "got one that is whole or divided otherwise; read it for the "
                    "policy's group"
                )
    # Only names that some direction has: the others would cost a zero tangent each.
    return [
        {
            name: v[name].to(device=p.device, dtype=p.dtype)
            if name in v
            else torch.zeros_like(p)
            for name, p in trained.items()
            if name in named
        }
        for v in directions
    ]


def require_differentiable(policy: Policy) -> None:
    """Raise if nothing is trained, or if an adapter is merged or a variant (DoRA)."""
    if not policy.trained():
        raise InvalidValue(
            "expected a policy with trained parameters, got none that require a "
            "gradient; load it with its adapter, or call requires_grad_()"
        )
    require_unmerged(policy)
    for name, module in policy.model.named_modules():
        # PEFT detaches the norm of DoRA, so autograd would be silently wrong.
        if getattr(module, "lora_variant", None):
            raise UnknownArchitecture(
                f"expected plain low-rank adapters, got a variant (DoRA) at {name}; it "
                "holds its norm constant in derivatives, which are then not those of "
                "the policy: merge_and_unload() it, or train a plain one"
            )
