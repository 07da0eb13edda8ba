"""Which pairs of responses have the most parallel gradients, in words."""

# Axes: N responses of the kernel.

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float

from entrometer.estimators import Estimate
from entrometer.estimators.estimate import jackknife
from entrometer.estimators.kernel import block_mask, cosines
from entrometer.runs import Rollouts
from studies.workbench_methods.prefixes import padded, shared_prefix
from studies.workbench_methods.rows import Example, Feature

TOP = 0.01
"""Share of the pairs that counts as the most parallel ones."""

EXAMPLES = 8
"""Pairs of different prompts that are shown in words."""


def features(
    checkpoint: str,
    K: Float[np.ndarray, "N N"],
    rollouts: Rollouts,
    S: Float[np.ndarray, " K"],
    prompts: Sequence[str],
) -> Iterator[Feature]:
    """Yield how often the most parallel pairs have each feature, by selection.

    Equal responses to one prompt have a cosine of 1, so the first selection is of
    pairs of different responses.

    `prompts` are the texts of the prompts, one per response; `S` is the log-prob of
    every token.
    """
    size = np.abs(cosines(K))
    upper = np.triu(np.ones(K.shape, bool), 1)
    unlike = upper & (shared_prefix(rollouts) >= 0)
    other = upper & block_mask(rollouts.prompt, "other")
    has = _features(rollouts, S, prompts) | {"negative cosine": K < 0}
    for among, mask in (("different responses", unlike), ("different prompts", other)):
        for feature, X in has.items():
            share = _share_of_top(size, X, mask, rollouts.prompt)
            yield Feature(
                checkpoint=checkpoint,
                among=among,
                feature=feature,
                pairs=_top(int(mask.sum())),
                top=share.value,
                top_low=share.low,
                top_high=share.high,
                every=float(X[mask].mean()),
            )


def _features(
    rollouts: Rollouts, S: np.ndarray, prompts: Sequence[str]
) -> dict[str, Bool[np.ndarray, "N N"]]:
    tokens = padded(rollouts)
    rows = np.arange(rollouts.count)
    log_p = np.zeros(tokens.shape)
    log_p[tokens >= 0] = S
    rarest = log_p.argmin(axis=1)
    rare = tokens[rows, rarest]
    right = rollouts.reward > 0.5
    digits = ["".join(sorted(p[:-2])) for p in prompts]
    marks = [p[-2] for p in prompts]
    alike = (tokens[:, None] == tokens[None, :]).sum(axis=2)
    same_place = _equal(rarest)
    return {
        "same prompt": _equal(rollouts.prompt),
        "same response": shared_prefix(rollouts) == -1,
        "same first token": _equal(tokens[:, 0]),
        "at least 3 tokens equal by position": alike >= 3,
        "same mark (order asked for)": _equal(np.array(marks)),
        "at least 3 digits of the prompts in common": _common(digits) >= 3,
        "both right": right[:, None] & right[None, :],
        "both wrong": ~right[:, None] & ~right[None, :],
        "rarest token at the same position": same_place,
        "and the same token there": same_place & _equal(rare),
    }


def _equal(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[:, None] == x[None, :])


def _common(digits: Sequence[str]) -> np.ndarray:
    """Return the size of the common multiset of digits, by pair."""
    counts = np.array([[d.count(str(i)) for i in range(10)] for d in digits])
    return np.asarray(np.minimum(counts[:, None], counts[None, :]).sum(axis=2))


def _top(count: int) -> int:
    return max(1, round(TOP * count))


def _share_of_top(
    size: np.ndarray, X: np.ndarray, mask: np.ndarray, prompt: np.ndarray
) -> Estimate:
    """Return the share with a feature; the jackknife chooses the top pairs anew."""

    def share(kept: np.ndarray) -> float:
        chosen = np.argsort(-size[kept], kind="stable")[: _top(int(kept.sum()))]
        return float(X[kept][chosen].mean())

    without = [
        share(mask & (prompt != p)[:, None] & (prompt != p)[None, :])
        for p in np.unique(prompt)
    ]
    return jackknife(share(mask), np.array(without))


def examples(
    checkpoint: str,
    K: Float[np.ndarray, "N N"],
    rollouts: Rollouts,
    prompts: Sequence[str],
) -> Iterator[Example]:
    """Yield the most parallel pairs of different prompts, each response once."""
    X = cosines(K)
    mask = np.triu(block_mask(rollouts.prompt, "other"))
    pairs = np.argwhere(mask)
    order = np.argsort(-np.abs(X[mask]), kind="stable")
    seen: set[tuple[str, str]] = set()
    for i, j in pairs[order]:
        both = {(prompts[n], rollouts.text[n]) for n in (i, j)}
        if len(seen) == 2 * EXAMPLES:
            return
        if seen & both:
            continue
        seen |= both
        yield Example(
            checkpoint=checkpoint,
            cosine=float(X[i, j]),
            prompt=prompts[i],
            response=rollouts.text[i],
            right=bool(rollouts.reward[i] > 0.5),
            other_prompt=prompts[j],
            other_response=rollouts.text[j],
            other_right=bool(rollouts.reward[j] > 0.5),
        )
