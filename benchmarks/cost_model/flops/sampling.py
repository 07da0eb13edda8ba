"""FLOP and bytes of drawing responses token by token."""

import numpy as np

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.lengths import Lengths
from benchmarks.cost_model.flops.work import Work

CACHED_TOKENS = 2**14
"""Most tokens in the key-value cache at once, as `policy.sample` has it."""


def sampling(
    shape: Architecture, lengths: Lengths, itemsize: int, max_tokens: int
) -> Work:
    r"""A call a token of the longest response of a batch.

    $N$ padded tokens of the prompts and $n$ of the responses:
    $2(N + n)(W + A) + 2nCV + 4aL\sum_{i}\sum_{t\le T_i}t$ FLOP; in bytes, each call
    reads the weights, $b\,P$, and every token reads and writes its own key-value cache,
    $3\cdot 2kLb$ for each token in it, and draws by float64 masses of the vocabulary,
    $8\cdot 10V$.
    """
    order = np.argsort(-lengths.prompt, kind="stable")
    L, a, k = shape.layers, shape.attention_width, shape.kv_width
    total = Work()
    first = 0
    while first < order.size:
        P = int(lengths.prompt[order[first]])
        size = max(1, CACHED_TOKENS // (P + max_tokens))
        T = lengths.response[order[first : first + size]].astype(float)
        N, n, calls = len(T) * P, float(T.sum()), float(T.max())
        context = float((T * P + T * (T + 1) / 2).sum())
        total += Work(
            calls=calls,
            flop=2 * (N + n) * (shape.linear + shape.low_rank)
            + 2 * n * shape.width * shape.vocabulary
            + 4 * a * L * (context + N * P),
            bytes=itemsize * L * (6 * k * context + (N + n) * shape.traffic)
            + 80 * n * shape.vocabulary,
            weights=calls * itemsize * shape.parameters,
        )
        first += size
    return total
