"""The kernel between a response and itself with one digit replaced."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from entrometer import passes
from entrometer.calculus import Vector, identity_preconditioner, inner_products, whiten
from entrometer.estimators.kernel import cosines
from entrometer.experiments.kernel.products import scores
from entrometer.policy import Policy
from entrometer.runs import Rollouts
from studies.workbench_methods.rows import Edit


def edits(
    checkpoint: str,
    policy: Policy,
    rollouts: Rollouts,
    preconditioner: Vector,
    *,
    seed: int = 0,
) -> Iterator[Edit]:
    """Yield two edits of every position of the first response to each prompt."""
    rng = np.random.default_rng([7, seed])
    metrics = {
        "sgd": identity_preconditioner(policy.trained()),
        "adam": preconditioner,
    }
    digits = np.array([policy.tokenizer.convert_tokens_to_ids(d) for d in "0123456789"])
    _, chosen = np.unique(rollouts.prompt, return_index=True)
    for row in chosen:
        labels, block = _edited(policy, rollouts.select(np.array([row])), digits, rng)
        parts = list(passes.per_sequence(policy, block, scores(block)))
        rows = {
            name: torch.cat([part.gradients[name] for part in parts])
            for name in parts[0].gradients
        }
        for metric, P in metrics.items():
            features = whiten(rows, P)
            K = inner_products(features, features).numpy()
            for i, (kind, position, log_prob) in enumerate(labels, 1):
                yield Edit(
                    checkpoint=checkpoint,
                    metric=metric,
                    kind=kind,
                    prompt=int(rollouts.prompt[row]),
                    position=position,
                    log_prob=log_prob,
                    ratio=float(K[0, i] / K[0, 0]),
                    cosine=float(cosines(K)[0, i]),
                )


def _edited(
    policy: Policy, base: Rollouts, digits: np.ndarray, rng: np.random.Generator
) -> tuple[list[tuple[str, int, float]], Rollouts]:
    """Return labels of the edits, and a table of the response and its edits."""
    (response,) = base.response_tokens
    labels, rows = [], [response]
    for k in range(response.size):
        if response[k] not in digits:
            continue
        others = digits[digits != response[k]]
        candidates = [
            np.where(np.arange(response.size) == k, d, response) for d in others
        ]
        S = passes.forward(policy, _with(base, candidates)).S.reshape(len(others), -1)
        p = np.exp(S[:, k] - S[:, k].max())
        for kind, at in (
            ("likely", rng.choice(others.size, p=p / p.sum())),
            ("uniform", rng.integers(others.size)),
        ):
            labels.append((kind, k + 1, float(S[at, k])))
            rows.append(candidates[at])
    return labels, _with(base, rows)


def _with(base: Rollouts, responses: list[np.ndarray]) -> Rollouts:
    """Return a table of other responses to the prompt of a table with one row."""
    repeated = base.select(np.zeros(len(responses), int))
    # Texts and rewards of the original would be wrong here, and no pass reads them.
    return replace(
        repeated,
        response_tokens=tuple(responses),
        text=("",) * len(responses),
        reward=np.full(len(responses), np.nan),
    )
