r"""Tangent rule of attention, in blocks that stay in the processor's cache.

$s = \lambda qk^\top$ and $\dot s = \lambda(\dot qk^\top + q\dot k^\top)$; a soft cap
multiplies $\dot s$ by $1 - \tanh^2$. With $P = \mathrm{softmax}(s)$ and the row sums
$a = \sum P\dot s$,

$$o = Pv, \qquad \dot o = (P\dot s)v + P\dot v - a\,o.$$

A sink, a score $z$ without a value, adds $P_z\dot z$ to $a$.
"""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), B sequences,
# H query heads, K key heads, G = H / K, T queries, U keys, C features of a head,
# V features of a value; X pairs of a sequence and a key head, N = G x queries, W keys.

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.policy.attention_keys import Chunk, Mask, query_chunks

_BLOCK_BYTES = {"cpu": 8 << 20}
_BLOCK_BYTES_ELSEWHERE = 128 << 20
"""Most bytes of a block's scores, unless 16 queries of one head are more.

Scores and their tangents are read and written several times. On a processor they have
to stay in its cache (measured at 4,096 tokens: 4.0 to 4.4 fused forwards for all heads
at once, 3.1 head by head), but products of few rows are slow (at 8,192 tokens 4.0 in
blocks of 4 MiB and 3.8 in blocks of 8 MiB); a graphics card needs large blocks.
"""

_FEWEST_QUERIES = 16
_MOST_QUERIES = 256  # More would compute too many scores of keys after the query.


def attention_rule(
    query: Float[Tensor, "M B H T C"],
    key: Float[Tensor, "M B K U C"],
    value: Float[Tensor, "M B K U V"],
    mask: Mask,
    scale: float,
    softcap: float | None,
    sinks: Float[Tensor, "M H"] | None = None,
) -> Float[Tensor, "M B T H V"]:
    r"""Return attention's output and its tangents, in memory linear in the length."""
    M, B, H, T, _ = query.shape
    K, U, V = *key.shape[2:4], value.shape[-1]
    G = H // K
    out = query.new_empty(M, B, T, H, V)
    sizes = _block_sizes(query, K, U)
    # Scores and tangents of every block are written to the same memory.
    room = query.new_empty(2, sizes.sequences * sizes.heads * G * sizes.queries * U)
    for b in _slices(B, sizes.sequences):
        heads = [
            _Heads(key[:, b, h], value[:, b, h], _tangents_of(sinks, h, G))
            for h in _slices(K, sizes.heads)
        ]
        for chunk in query_chunks(mask, b, T, U, sizes.queries, query.device):
            first = 0
            for head in heads:
                h = slice(first, first + G * head.count)
                q = query[:, b, h, chunk.queries] * scale
                o = head.attend(q, chunk, softcap, room)
                out[:, b, chunk.queries, h] = o.transpose(2, 3)
                first = h.stop
    return out


class _Sizes(NamedTuple):
    sequences: int
    heads: int
    queries: int


def _block_sizes(query: Tensor, K: int, U: int) -> _Sizes:
    _, B, H, T, _ = query.shape
    limit = _BLOCK_BYTES.get(query.device.type, _BLOCK_BYTES_ELSEWHERE)
    scores = limit // (U * query.element_size())
    queries = min(T, _MOST_QUERIES, max(_FEWEST_QUERIES, scores * K // H))
    pairs = max(1, scores * K // (H * queries))
    return _Sizes(min(B, max(1, pairs // K)), min(K, pairs), queries)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(i, min(count, i + size)) for i in range(0, count, size))


def _tangents_of(sinks: Tensor | None, heads: slice, G: int) -> Tensor | None:
    return None if sinks is None else sinks[:, heads.start * G : heads.stop * G]


class _Heads:
    """Keys and values of some heads, side by side with their tangents."""

    def __init__(
        self,
        key: Float[Tensor, "M B K U C"],
        value: Float[Tensor, "M B K U V"],
        sinks: Float[Tensor, "M GK"] | None,
    ) -> None:
        self.pairs, self.count = key.shape[1:3], key.shape[2]
        k = key.flatten(1, 2)
        self.k_XCU = k[0].mT
        # One product with twice the features in place of a sum of two products.
        self.dk_XCU = [torch.cat([k[0], dk], dim=-1).mT for dk in k[1:]]
        v = value.flatten(1, 2)
        self.v_XUV, self.V = v[0], value.shape[-1]
        # P times the value and times all tangents of it, in one product.
        self.all_v_XUV = torch.cat(tuple(v), dim=-1)
        self.sinks = sinks

    def attend(
        self,
        query: Float[Tensor, "M B H n C"],
        chunk: Chunk,
        softcap: float | None,
        room: Float[Tensor, "2 _"],
    ) -> Float[Tensor, "M B H n V"]:
        """Return the output of a chunk of queries, already scaled, and its tangents."""
        M, B, H, n, C = query.shape
        q = query.reshape(M, B * self.count, -1, C)
        X, N, keys = q.shape[1], q.shape[2], chunk.keys
        W = keys.stop - keys.start
        first, second = (x[: X * N * W].view(X, N, W) for x in room)
        s = torch.bmm(q[0], self.k_XCU[..., keys], out=first)
        cap_slope: Tensor | None = None
        if softcap is not None:
            s.div_(softcap).tanh_()
            cap_slope = 1 - s.square()
            s.mul_(softcap)
        # The lowest finite number and not minus infinity: with left padding a query may
        # have no allowed key, and its value and derivatives would be NaN.
        seen = s.view(B, self.count, -1, n, W)[..., chunk.first :]
        seen.masked_fill_(~chunk.allowed[:, :, None], torch.finfo(s.dtype).min)
        sink: Tensor | None = None
        if self.sinks is None:
            P = torch.softmax(s, dim=-1, out=second)
        else:
            z = self._per_query(self.sinks[0], B, n)
            both = torch.softmax(torch.cat([s, z], dim=-1), dim=-1)
            P, sink = both[..., :-1], both[..., -1:]
        Pv = (P @ self.all_v_XUV[:, keys]).split(self.V, dim=-1)
        out = [o := Pv[0]]
        for d in range(1, M):
            # P has been made from s, so the tangent may take its memory.
            ds = torch.bmm(
                torch.cat([q[d], q[0]], dim=-1),
                self.dk_XCU[d - 1][..., keys],
                out=first,
            )
            if cap_slope is not None:
                ds.mul_(cap_slope)
            # P = 0 masks the tangents too, but for queries of padding, which nothing
            # reads.
            ds.mul_(P)
            a = ds.sum(-1, keepdim=True)
            if self.sinks is not None and sink is not None:
                a.addcmul_(sink, self._per_query(self.sinks[d], B, n))
            # The sum is taken off the output and not off each score: the scores are
            # read once less.
            do = torch.baddbmm(Pv[d], ds, self.v_XUV[:, keys])
            out.append(do.addcmul_(a, o, value=-1))
        return torch.stack(out).view(M, B, H, n, self.V)

    def _per_query(self, z: Float[Tensor, " GK"], B: int, n: int) -> Tensor:
        z = z.view(1, self.count, -1, 1).expand(B, -1, -1, n)
        return z.reshape(B * self.count, -1, 1)
