r"""The vocabulary head in chunks of tokens: never tokens × vocabulary in memory.

With logits $z = Wh$ over the temperature (soft-capped to $c\tanh(z/c)$ where the model
does that), $\ell = z - Z$ and $p = e^\ell$: $S = \ell_y$ and $H = -\sum p\ell$.
Derivatives are in closed form, so autograd never sees a tensor with a vocabulary axis.
"""

# Axes: N scored tokens, C features, V vocabulary, D directions.

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

# A processor's cache should hold a chunk. Other devices read the whole weight from
# memory for each, so that few tokens per chunk would be slow.
_CHUNK_BYTES = {"cpu": 16 << 20}
_LARGE_CHUNK_BYTES = 256 << 20


class HeadTangents(NamedTuple):
    """S and H of the scored tokens, and their derivatives along D directions."""

    S: Float[Tensor, " N"]
    H: Float[Tensor, " N"]
    dS: Float[Tensor, "D N"]
    dH: Float[Tensor, "D N"]


class HeadCurvatures(NamedTuple):
    """S and H of the scored tokens, with first and second derivatives."""

    S: Float[Tensor, " N"]
    H: Float[Tensor, " N"]
    dS: Float[Tensor, " N"]
    dH: Float[Tensor, " N"]
    ddS: Float[Tensor, " N"]
    ddH: Float[Tensor, " N"]


class HeadGradient(NamedTuple):
    """S and H of the scored tokens, and a gradient in hidden states and weight."""

    S: Float[Tensor, " N"]
    H: Float[Tensor, " N"]
    hidden: Float[Tensor, "N C"]
    weight: Float[Tensor, "V C"] | None


@dataclass(frozen=True, eq=False)
class VocabularyHead:
    """Last linear layer of a policy, with its soft cap and the sampling temperature."""

    weight: Float[Tensor, "V C"]
    softcap: float | None = None
    temperature: float = 1.0

    chunk_bytes: int | None = None
    """Size of one chunk of logits; None for what suits the device."""

    @torch.no_grad()
    def forward(
        self, h: Float[Tensor, "N C"], y: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Return S and H of each scored token."""
        S, H = h.new_empty(2, len(y))
        for at in self._chunks(len(y)):
            z, _ = self._logits(h[at])
            S[at], H[at], _ = self._tables(z, y[at])
        return S, H

    @torch.no_grad()
    def concentration(
        self, h: Float[Tensor, "N C"]
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        r"""Return $\sum p^2$ and $\sum p^2(\ell + H)$ before each scored token."""
        squared, surplus = h.new_empty(2, len(h))
        for at in self._chunks(len(h)):
            z, _ = self._logits(h[at])
            z.sub_(z.logsumexp(-1, keepdim=True))
            p = z.exp()
            H = -torch.linalg.vecdot(p, z)
            p.square_()
            squared[at] = p.sum(-1)
            surplus[at] = torch.linalg.vecdot(p, z) + H * squared[at]
        return squared, surplus

    @torch.no_grad()
    def jvp(
        self,
        h: Float[Tensor, "N C"],
        dh: Float[Tensor, "D N C"],
        y: Int[Tensor, " N"],
        dweight: list[Tensor | None],
    ) -> HeadTangents:
        r"""Return S, H and their tangents along D directions.

        $\dot z = W\dot h + \dot W h$, $m = \sum p\dot z$, $\nabla_vS = \dot z_y - m$
        and $\nabla_vH = -\sum p\dot z\ell - mH$ (the sum of $p\ell$ is $-H$).
        """
        D, N = len(dh), len(y)
        S, H = h.new_empty(2, N)
        dS, dH = h.new_empty(2, D, N)
        for at in self._chunks(N, copies=1 + D):
            z, slope = self._logits(h[at])
            S[at], H[at], p = self._tables(z, y[at])
            for d in range(D):
                dz = self._logit_tangent(h[at], dh[d, at], dweight[d], slope)
                dz_y = dz.gather(-1, y[at, None])[:, 0]
                # One product p·dz serves both sums, over dz and over dz·log p.
                dz.mul_(p)
                m = dz.sum(-1)
                dS[d, at] = dz_y - m
                dH[d, at] = -torch.linalg.vecdot(dz, z) - m * H[at]
        return HeadTangents(S, H, dS, dH)

    @torch.no_grad()
    def jvp2(
        self,
        h: Float[Tensor, "N C"],
        dh: Float[Tensor, "N C"],
        ddh: Float[Tensor, "N C"],
        y: Int[Tensor, " N"],
        dweight: Tensor | None,
    ) -> HeadCurvatures:
        r"""Return S, H and their first and second derivatives along one direction.

        With $\dot\ell = \dot z - m$, $V = \sum p\dot\ell^2$ and $m_2 = \sum p\ddot z$:
        $\nabla_v^2S = \ddot z_y - m_2 - V$ and
        $\nabla_v^2H = -\sum p\ell(\dot\ell^2 + \ddot z) - (m_2 + V)H - V$.
        """
        out = h.new_empty(6, len(y))
        for at in self._chunks(len(y), copies=3):
            raw = h[at] @ self.weight.T
            dz = dh[at] @ self.weight.T
            ddz = ddh[at] @ self.weight.T
            if dweight is not None:
                dz += h[at] @ dweight.T
                # z = Wh is bilinear: its second derivative has the mixed term twice.
                ddz += 2 * (dh[at] @ dweight.T)
            if self.softcap is not None:
                # Chain rule through c tanh(z/c): first derivative 1 - t², second
                # derivative -2t(1 - t²)/c.
                t = torch.tanh(raw / self.softcap)
                first = 1 - t.square()
                ddz = first * ddz - 2 / self.softcap * t * first * dz.square()
                dz, raw = first * dz, t * self.softcap
            z, dz, ddz = (x / self.temperature for x in (raw, dz, ddz))
            S, H, p = self._tables(z, y[at])
            m, m2 = (p * dz).sum(-1), (p * ddz).sum(-1)
            # Centred before squaring: Σp dz² - m² would cancel where dz is large.
            dl = dz - m[:, None]
            V = (p * dl.square()).sum(-1)
            at_y = y[at, None]
            out[0, at], out[1, at] = S, H
            out[2, at] = dl.gather(-1, at_y)[:, 0]
            out[3, at] = -(p * z * dl).sum(-1)
            out[4, at] = ddz.gather(-1, at_y)[:, 0] - m2 - V
            curved = (p * z * (dl.square() + ddz)).sum(-1)
            out[5, at] = -curved - (m2 + V) * H - V
        return HeadCurvatures(*out)

    @torch.no_grad()
    def vjp(
        self,
        h: Float[Tensor, "N C"],
        y: Int[Tensor, " N"],
        a: Float[Tensor, " N"],
        b: Float[Tensor, " N"],
        *,
        weight_gradient: bool = False,
    ) -> HeadGradient:
        r"""Return the gradient of $\sum aS + bH$ in hidden states; in weight if asked.

        $\partial/\partial z = a(e_y - p) - bp(\ell + H)$.
        """
        # The token weights a and b are known beforehand, so the gradient is formed in
        # the same chunk as the tables: two products per chunk, nothing stored.
        S, H = h.new_empty(2, len(y))
        g = torch.empty_like(h)
        G = torch.zeros_like(self.weight) if weight_gradient else None
        for at in self._chunks(len(y)):
            z, slope = self._logits(h[at])
            S[at], H[at], p = self._tables(z, y[at])
            at_y, a_N1, b_N1 = y[at, None], a[at, None], b[at, None]
            # In place on the log-probs, which nothing needs afterwards.
            z.add_(H[at, None]).mul_(b_N1).add_(a_N1).mul_(p).neg_()
            z.scatter_add_(-1, at_y, a_N1)
            self._scale(z, slope)
            torch.mm(z, self.weight, out=g[at])
            if G is not None:
                G.addmm_(z.T, h[at])
        return HeadGradient(S, H, g, G)

    def _chunks(self, N: int, copies: int = 1) -> Iterator[slice]:
        per_token = self.weight.shape[0] * self.weight.element_size() * copies
        default = _CHUNK_BYTES.get(self.weight.device.type, _LARGE_CHUNK_BYTES)
        size = max(1, (self.chunk_bytes or default) // per_token)
        for i in range(0, N, size):
            yield slice(i, min(i + size, N))

    def _logits(self, h: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits, and the slope of the soft cap where there is one."""
        z = h @ self.weight.T
        slope = None
        if self.softcap is not None:
            # The slope is taken between the two steps, where z holds the tanh.
            z.div_(self.softcap).tanh_()
            slope = 1 - z.square()
            z.mul_(self.softcap)
        if self.temperature != 1.0:
            z.div_(self.temperature)
        return z, slope

    def _logit_tangent(
        self, h: Tensor, dh: Tensor, dweight: Tensor | None, slope: Tensor | None
    ) -> Tensor:
        dz = dh @ self.weight.T
        if dweight is not None:
            dz.addmm_(h, dweight.T)
        self._scale(dz, slope)
        return dz

    def _scale(self, x: Tensor, slope: Tensor | None) -> None:
        if slope is not None:
            x.mul_(slope)
        if self.temperature != 1.0:
            x.div_(self.temperature)

    @staticmethod
    def _tables(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return S, H and p, and turn the logits into log-probs in place."""
        # H from log-probs: Z - Σpz would multiply the rounding of p by |z|.
        z.sub_(z.logsumexp(-1, keepdim=True))
        p = z.exp()
        return z.gather(-1, y[:, None])[:, 0], -torch.linalg.vecdot(p, z), p
