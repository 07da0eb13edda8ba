"""FLOP and bytes of drawing responses token by token."""

import numpy as np

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.lengths import Lengths
from benchmarks.cost_model.flops.parts import products, weights_read
from benchmarks.cost_model.flops.precision import FORMATS
from benchmarks.cost_model.flops.work import Number, Work

CACHED_TOKENS = 2**14
"""Most tokens in the key-value cache at once, as `policy.sample` has it."""


def sampling(
    shape: Architecture, lengths: Lengths, precision: str, max_tokens: int
) -> Work:
    r"""Return the work of transformers' loop: a call per token of a batch's longest.

    $N$ padded tokens of the prompts and $n$ of the responses:
    $2(N + n)(W + A) + 2nCV + 4aL\sum_{i}\sum_{t\le T_i}t$ FLOP; in bytes, each call
    reads the weights, and every token reads and writes its own key-value cache,
    $3\cdot 2kLb$ for each token in it, and draws by float64 masses of the vocabulary,
    $8\cdot 10V$.
    """
    order = np.argsort(-lengths.prompt, kind="stable")
    f = FORMATS[precision]
    L, a, k = shape.layers, shape.attention_width, shape.kv_width
    moved = shape.residual_traffic + shape.inner_traffic
    total = Work()
    first = 0
    while first < order.size:
        P = int(lengths.prompt[order[first]])
        size = max(1, CACHED_TOKENS // (P + max_tokens))
        T = lengths.response[order[first : first + size]].astype(float)
        N, n, calls = len(T) * P, float(T.sum()), float(T.max())
        context = float((T * P + T * (T + 1) / 2).sum())
        read = weights_read(shape, precision, n / calls, f.values)
        total += Work(
            calls=calls,
            bytes=f.values * L * (6 * k * context + (N + n) * moved)
            + 80 * n * shape.vocabulary,
            weights=calls * read,
        )
        flop = (
            2 * (N + n) * (shape.linear + shape.low_rank)
            + 2 * n * shape.head
            + 4 * a * L * (context + N * P)
        )
        total += products(f, flop, f.values)
        first += size
    return total


def served(shape: Architecture, lengths: Lengths, at_once: int, parallel: int) -> Work:
    r"""Return the work of one of a vLLM server's GPUs, which has always `at_once`.

    In bfloat16, adapters merged or small, with weights, heads and products divided by
    `parallel` GPUs: a step of $B$ sequences reads the weights, $2P/t$ bytes, and the
    cache, $2\cdot 2kL/t$ bytes for each token before, and sums the outputs of attention
    and of the feed-forward over GPUs, $2\cdot 2LBC\cdot 2(t - 1)/t$ bytes.
    """
    L, a, k, C = shape.layers, shape.attention_width, shape.kv_width, shape.width
    T = lengths.response.astype(float)
    N, n = float(lengths.prompt.sum()), float(T.sum())
    context = float((T * lengths.prompt + T * (T + 1) / 2).sum())
    steps = n / at_once
    flop = 2 * (N + n) * shape.linear + 2 * n * shape.head + 4 * a * L * context
    share = 1 / parallel
    return Work(
        calls=steps,
        flop=flop * share,
        bytes=share * (4 * k * L * context + 20 * n * shape.vocabulary),
        weights=steps * 2 * shape.met(at_once) * share,
        exchanged=2 * 2 * L * (N + n) * C * 2 * (1 - share),
    )


def server_memory(shape: Architecture, length: Number, at_once: int) -> float:
    """Return the bytes of weights and key-value cache of a server in bfloat16."""
    cached = 4 * shape.kv_width * shape.layers * length * at_once
    return 2 * shape.parameters + cached
