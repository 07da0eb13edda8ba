"""Does the kernel of an adapter agree with that of all parameters of its policy?

A fresh adapter leaves the policy as it is, so both kernels are of the same responses
under the same policy. With P = 1: an adapter that was never trained has no moments.
"""

# Axes: N responses, P prompts, D draws of an adapter.

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from entrometer.calculus import inner_products
from entrometer.estimators import Estimate, pseudo_values, two_way
from entrometer.estimators.estimate import jackknife
from entrometer.estimators.kernel import block_mask, cosines, pair_sum
from entrometer.experiments.kernel.products import Slab, gather, scores
from entrometer.experiments.requests import Subject
from entrometer.policy import load_policy
from entrometer.policy.adapter import add_adapter
from entrometer.policy.policy import Policy
from entrometer.runs import Rollouts
from studies.workbench_methods.prefixes import shared_prefix
from studies.workbench_methods.rows import Agreement, Share

RANKS = (1, 8, 64)
DRAWS = 4
"""Adapters per rank: half of each is drawn at random."""

GROUPS = {
    "embedding and head": ("embed",),
    "attention": ("self_attn", "weight"),
    "MLP": ("mlp",),
    "gains and biases": (),
}
"""Parameters by parts of their names; the first group that fits."""


def agreements(
    checkpoint: str, subject: Subject, rollouts: Rollouts, whole: np.ndarray
) -> tuple[list[Agreement], list[Share]]:
    """Return how kernels of parts and of adapters agree with `whole`, of all."""
    policy = load_policy(subject.path)
    grouped = dict(_grouped(policy, rollouts))
    total = np.sum([K for K, _ in grouped.values()], axis=0)
    # The groups are all parameters, so their kernels add up to the experiment's.
    assert np.allclose(total, whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max())
    linear = [grouped[name] for name in ("attention", "MLP")]
    K = np.sum([K for K, _ in linear], axis=0)
    rows = _compared(
        checkpoint,
        "weights of linear layers",
        [K],
        linear[0][1] + linear[1][1],
        whole,
        rollouts,
    )
    for rank in RANKS:
        drawn = [_adapted(subject, rollouts, rank, seed) for seed in range(DRAWS)]
        rows += _compared(
            checkpoint,
            f"adapter of rank {rank}",
            [K for K, _ in drawn],
            drawn[0][1],
            whole,
            rollouts,
        )
    trace = np.trace(total)
    shares = [
        Share(
            checkpoint=checkpoint,
            group=name,
            parameters=n,
            trace=float(np.trace(K) / trace),
        )
        for name, (K, n) in grouped.items()
    ]
    return rows, shares


def _grouped(
    policy: Policy, rollouts: Rollouts
) -> Iterator[tuple[str, tuple[np.ndarray, int]]]:
    """Yield the kernel and the number of parameters of each group."""
    slabs = [Slab(name, 0, p.numel()) for name, p in policy.trained().items()]
    kept = gather(policy, rollouts, scores(rollouts), slabs)
    left = list(slabs)
    for group, words in GROUPS.items():
        own = [s for s in left if all(w in s.name for w in words)]
        left = [s for s in left if s not in own]
        K = np.zeros((rollouts.count, rollouts.count))
        for slab in own:
            rows = {"": kept.pop(slab)}
            K += inner_products(rows, rows).numpy()
        yield group, (K, sum(s.stop for s in own))


def _adapted(
    subject: Subject, rollouts: Rollouts, rank: int, seed: int
) -> tuple[np.ndarray, int]:
    """Return the kernel of a fresh adapter and its number of parameters."""
    policy = add_adapter(load_policy(subject.path), rank=rank, seed=seed)
    trained = policy.trained()
    slabs = [Slab(name, 0, p.numel()) for name, p in trained.items()]
    rows = gather(policy, rollouts, scores(rollouts), slabs)
    K = np.zeros((rollouts.count, rollouts.count))
    for x in rows.values():
        K += inner_products({"": x}, {"": x}).numpy()
    return K, sum(p.numel() for p in trained.values())


def _compared(
    checkpoint: str,
    kernel: str,
    drawn: list[np.ndarray],
    parameters: int,
    whole: np.ndarray,
    rollouts: Rollouts,
) -> list[Agreement]:
    prompt = rollouts.prompt
    # The cosine of two equal responses to a prompt is 1 in every kernel.
    unlike = shared_prefix(rollouts) >= 0
    values = {
        f"correlation, {block}": [
            _correlation(cosines(K), cosines(whole), unlike & mask, prompt)
            for K in drawn
        ]
        for block in ("prompt", "other")
        for mask in [block_mask(prompt, block)]
    } | {"effective rank": [_relative_rank(K, whole, prompt) for K in drawn]}
    rows = []
    for quantity, of_draws in values.items():
        e = _estimate(of_draws)
        rows.append(
            Agreement(
                checkpoint=checkpoint,
                kernel=kernel,
                parameters=parameters,
                draws=len(drawn),
                quantity=quantity,
                value=e.value,
                low=e.low,
                high=e.high,
            )
        )
    return rows


Jackknifed = tuple[float, Float[np.ndarray, " P"]]
"""A quantity of all prompts, and without each."""


def _estimate(of_draws: list[Jackknifed]) -> Estimate:
    if len(of_draws) == 1:
        return jackknife(*of_draws[0])
    cells = [pseudo_values(np.array(whole), without) for whole, without in of_draws]
    return two_way(np.array(cells)).expected


def _correlation(
    X: np.ndarray, Y: np.ndarray, mask: Bool[np.ndarray, "N N"], prompt: np.ndarray
) -> Jackknifed:
    n, x, y, xx, yy, xy = (
        pair_sum(np.where(mask, c, 0.0), prompt)
        for c in (np.ones_like(X), X, Y, X * X, Y * Y, X * Y)
    )

    def r(part: int) -> np.ndarray:
        s, a, b, aa, bb, ab = (np.asarray(c[part]) for c in (n, x, y, xx, yy, xy))
        return np.asarray(
            (s * ab - a * b) / np.sqrt((s * aa - a * a) * (s * bb - b * b))
        )

    return float(r(0)), r(1)


def _relative_rank(K: np.ndarray, whole: np.ndarray, prompt: np.ndarray) -> Jackknifed:
    (one, other) = (
        (pair_sum(np.diag(M.diagonal()), prompt), pair_sum(M**2, prompt))
        for M in (K, whole)
    )

    def ratio(part: int) -> np.ndarray:
        (a, aa), (b, bb) = (
            [np.asarray(s[part]) for s in pair] for pair in (one, other)
        )
        return np.asarray(a**2 / aa / (b**2 / bb))

    return float(ratio(0)), ratio(1)
