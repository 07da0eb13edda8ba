r"""Pulls of every intervention in closed form: NumPy, and nothing of the package.

A function takes a batch and the settings, and returns what its loss does to each token
before the mean: $-\partial\ell/\partial S$ and $-\partial\ell/\partial H$.
"""

# Axes: B responses, T tokens of a response. Off the mask tables hold 0.

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Table = np.ndarray[Any, np.dtype[np.float64]]
Choice = np.ndarray[Any, np.dtype[np.bool_]]
Pulls = tuple[Table, Table]


@dataclass(frozen=True, eq=False)
class Batch:
    """The tables that an intervention sees, as arrays."""

    S: Table
    H: Table
    S_old: Table
    A: Table
    mask: Choice
    group: np.ndarray[Any, np.dtype[np.int64]]
    L: int
    C: Table
    I_h: Table
    I_J: Table
    S_engine: Table
    S_ref: Table
    progress: float

    @property
    def r(self) -> Table:
        return np.exp(self.S - self.S_old)

    @property
    def p(self) -> Table:
        return np.exp(self.S)

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    def mean(self, x: Table) -> float:
        return float(x[self.mask].sum() / self.count)


def clipped(b: Batch, low: float, high: float) -> Choice:
    """Tokens whose smaller surrogate is the constant one."""
    over: Choice = (b.A > 0) & (b.r > 1 + high)
    under: Choice = (b.A < 0) & (b.r < 1 - low)
    return b.mask & (over | under)


def surrogate(b: Batch, low: float, high: float) -> Table:
    """Pull of plain Dr-GRPO."""
    return np.where(clipped(b, low, high), 0.0, b.r * b.A)


def largest(score: Table, among: Choice, count: int) -> Choice:
    """The `count` of the largest score; the earlier of equal ones."""
    where = np.flatnonzero(among)
    order = sorted(where, key=lambda k: (-score.flat[k], k))
    chosen = np.zeros(score.size, dtype=bool)
    chosen[order[:count]] = True
    return chosen.reshape(score.shape)


def covariance(b: Batch) -> Table:
    c: Table = (b.A - b.mean(b.A)) * (b.S - b.mean(b.S))
    return c


def alone(alpha: Table) -> Pulls:
    return alpha, np.zeros_like(alpha)


def dr_grpo(b: Batch, *, low: float, high: float) -> Pulls:
    return alone(surrogate(b, low, high))


def grpo(b: Batch, *, low: float, high: float) -> Pulls:
    pull = surrogate(b, low, high)
    for i, T in enumerate(b.mask.sum(axis=1)):
        own = b.A[b.group == b.group[i], 0]
        spread = np.sqrt(((own - own.mean()) ** 2).sum() / (len(own) - 1))
        pull[i] *= b.L / T / (spread + 1e-4)
    return alone(pull)


def kl_cov(b: Batch, *, rho: float, beta: float) -> Pulls:
    held = largest(covariance(b), b.mask, max(1, int(rho * b.count)))
    return alone(b.r * b.A - beta * np.sign(b.S - b.S_old) * held)


def clip_cov(
    b: Batch, *, rho: float, lower: float, upper: float, low: float, high: float
) -> Pulls:
    """For a lot that falls on every candidate."""
    c = covariance(b)
    candidate = b.mask & ~clipped(b, low, high) & (c > lower) & (c < upper)
    assert candidate.sum() <= max(1, int(rho * b.count))
    return alone(np.where(candidate, 0.0, surrogate(b, low, high)))


def ce_gppo(b: Batch, *, low: float, high: float, beta1: float, beta2: float) -> Pulls:
    kept = np.where(b.A < 0, beta1 * (1 - low), beta2 * (1 + high)) * b.A
    return alone(np.where(clipped(b, low, high), kept, b.r * b.A))


def sapo(b: Batch, *, tau_positive: float, tau_negative: float) -> Pulls:
    x = np.where(b.A > 0, tau_positive, tau_negative) * (b.r - 1)
    # 4 σ(1 − σ) is the square of a hyperbolic secant.
    return alone(b.A * b.r / np.cosh(x / 2) ** 2)


def cispo(b: Batch, *, low: float, high: float) -> Pulls:
    return alone(np.minimum(np.maximum(b.r, 1 - low), 1 + high) * b.A)


def entropy_bonus(b: Batch, *, alpha: float, low: float, high: float) -> Pulls:
    B = len(b.S)
    return surrogate(b, low, high), np.full_like(b.S, alpha * B * b.L / b.count)


def adaptive_bonus(
    b: Batch,
    *,
    alpha: float,
    delta: float,
    largest: float,
    target: float,
    low: float,
    high: float,
) -> Pulls:
    acting = alpha if b.mean(b.H) <= target else 0.0
    return entropy_bonus(b, alpha=acting, low=low, high=high)


def governor(
    b: Batch, *, alpha: float, low: float, high: float, **state: float
) -> Pulls:
    # Its state decides the next step's strength, and not this step's loss.
    return entropy_bonus(b, alpha=alpha, low=low, high=high)


def high_entropy(b: Batch, *, rho: float, low: float, high: float) -> Pulls:
    h = np.sort(b.H[b.mask])
    at = (1 - rho) * (b.count - 1)
    i = int(at)
    between = h[i] + (at - i) * (h[min(i + 1, b.count - 1)] - h[i])
    return alone(np.where(between <= b.H, surrogate(b, low, high), 0.0))


def steer(b: Batch, *, lowest: float, floor: float, low: float, high: float) -> Pulls:
    omega = b.A / np.exp(b.S_old) * b.p * (1 - b.p) * (b.S + b.H)
    size = np.abs(omega) * b.mask
    # exp(−k x) with k = −ln(lowest)/largest.
    weight = lowest ** (size / max(size.max(), floor))
    return alone(weight * surrogate(b, low, high))


def clip_b(b: Batch, *, mu: float, low: float, high: float) -> Pulls:
    s = b.p * (b.H + b.S)
    sigma = s[b.mask].std()
    dropped = (b.A < 0) & (s - b.mean(s) < -mu * sigma)
    return alone(np.where(dropped, 0.0, surrogate(b, low, high)))


def clip_v(b: Batch, *, mu: float, most: float, low: float, high: float) -> Pulls:
    gap = b.C - b.p * (b.H + b.S)
    sigma = gap[b.mask].std()
    far = b.mask & (b.A < 0) & (gap > mu * sigma)
    dropped = largest(gap, far, max(1, int(most * b.count)))
    return alone(np.where(dropped, 0.0, surrogate(b, low, high)))


def stare(
    b: Batch,
    *,
    share: float,
    gain: float,
    cut: float,
    below: float,
    low: float,
    high: float,
) -> Pulls:
    pull = surrogate(b, low, high)
    if b.mean(b.H) >= below:
        return alone(pull)
    weight = np.ones_like(pull)
    for side, factor in ((b.A > 0, gain), (b.A < 0, cut)):
        own = b.mask & side
        weight[largest(-b.S, own, max(1, int(share * own.sum())))] = factor
    return alone(weight * pull)


def entrocraft(
    b: Batch,
    *,
    upper_start: float,
    upper_end: float,
    lower_start: float,
    lower_end: float,
    low: float,
    high: float,
) -> Pulls:
    h = b.mean(b.H)
    upper = upper_start * (1 - b.progress) + upper_end * b.progress
    lower = lower_start * (1 - b.progress) + lower_end * b.progress
    pull = surrogate(b, low, high)
    if h > upper:
        return alone(np.where(b.A > 0, pull, 0.0))
    if h < lower:
        return alone(np.where(b.A < 0, pull, 0.0))
    return alone(pull)


def positive_only(b: Batch, *, negative: float, low: float, high: float) -> Pulls:
    return alone(np.where(b.A < 0, negative, 1.0) * surrogate(b, low, high))


def negative_reinforced(b: Batch, *, positive: float, low: float, high: float) -> Pulls:
    return alone(np.where(b.A > 0, positive, 1.0) * surrogate(b, low, high))


def frontier(b: Batch, *, price: float, low: float, high: float) -> Pulls:
    # The price has no unit: at 1, all of both influences weigh the same.
    unit = np.abs(b.I_J[b.mask]).sum() / np.abs(b.I_h[b.mask]).sum()
    kept = b.I_J + price * unit * b.I_h > 0
    return alone(np.where(kept, surrogate(b, low, high), 0.0))


def response_sum(b: Batch, x: Table) -> Table:
    total: Table = np.where(b.mask, x, 0.0).sum(axis=1, keepdims=True)
    return total


def lengths(b: Batch) -> Table:
    T: Table = b.mask.sum(axis=1, keepdims=True).astype(np.float64)
    return T


def gspo(b: Batch, *, low: float, high: float) -> Pulls:
    s = np.exp(response_sum(b, b.S - b.S_old) / lengths(b))
    stopped = ((b.A > 0) & (s > 1 + high)) | ((b.A < 0) & (s < 1 - low))
    return alone(np.where(stopped, 0.0, s * b.A))


def gmpo(b: Batch, *, low: float, high: float) -> Pulls:
    log_r = b.S - b.S_old
    bounded = np.where(
        b.A > 0, np.minimum(log_r, high), np.where(b.A < 0, np.maximum(log_r, -low), 0)
    )
    rho = np.exp(response_sum(b, bounded) / lengths(b))
    return alone(np.where(bounded == log_r, rho * b.A, 0.0))


def vespo(
    b: Batch,
    *,
    k_positive: float,
    lambda_positive: float,
    k_negative: float,
    lambda_negative: float,
) -> Pulls:
    w = np.exp(response_sum(b, b.S - b.S_old))
    right = w**k_positive * np.exp(lambda_positive * (1 - w))
    wrong = w**k_negative * np.exp(lambda_negative * (1 - w))
    return alone(np.where(b.A > 0, right, wrong) * b.A)


def dppo(b: Batch, *, low: float, high: float, cap: float) -> Pulls:
    moved = np.exp(b.S) - np.exp(b.S_old)
    far = np.where(b.A > 0, moved > high, -moved > low)
    return alone(np.where(far, 0.0, np.minimum(b.r, cap) * b.A))


def dppo_engine(b: Batch, *, low: float, high: float, cap: float) -> Pulls:
    return dppo(replace(b, S_old=b.S_engine), low=low, high=high, cap=cap)


def entropy_advantage(
    b: Batch, *, alpha: float, kappa: float, low: float, high: float
) -> Pulls:
    added = np.minimum(alpha * b.H, np.abs(b.A) / kappa)
    return alone(surrogate(replace(b, A=b.A + added), low, high))


def repo(b: Batch, *, zeta: float, low: float, high: float) -> Pulls:
    weight = np.where(b.A > 0, 1 - zeta * b.S, np.maximum(0.0, 1 + zeta * b.S))
    return alone(weight * surrogate(b, low, high))


def stapo(b: Batch, *, unlikely: float, level: float, low: float, high: float) -> Pulls:
    certain = np.quantile(b.H[b.mask], level) > b.H
    spurious = (b.A > 0) & (b.p < unlikely) & certain
    return alone(np.where(spurious, 0.0, surrogate(b, low, high)))


def qae(b: Batch, *, level: float, low: float, high: float) -> Pulls:
    A = b.A.copy()
    for g in np.unique(b.group):
        own = b.group == g
        A[own] -= np.quantile(b.A[own, 0], level)
    # NumPy interpolates equal rewards with round-off.
    A[np.abs(A) < 1e-12] = 0.0
    return alone(surrogate(replace(b, A=A), low, high))


def pass_at_k(b: Batch, *, low: float, high: float) -> Pulls:
    A = np.zeros_like(b.A)
    for g in np.unique(b.group):
        own = np.flatnonzero(b.group == g)
        second, first = np.sort(b.A[own, 0])[-2:]
        A[own[b.A[own, 0].argmax()]] = first - second
    return alone(surrogate(replace(b, A=A), low, high))


def negative_filter(b: Batch, *, keep: float, low: float, high: float) -> Pulls:
    pull = surrogate(b, low, high)
    for i, row in enumerate(b.mask):
        kept = largest(-b.S[i], row, max(1, int(keep * row.sum())))
        pull[i] = np.where((b.A[i] < 0) & ~kept, 0.0, pull[i])
    return alone(pull)


def aspo(b: Batch, *, low: float, high: float, cap: float) -> Pulls:
    size = np.where(b.A > 0, 1 / b.r, b.r)
    return alone(np.where(clipped(b, low, high), 0.0, np.minimum(size, cap) * b.A))


def bapo(
    b: Batch,
    *,
    share: float,
    lower_start: float,
    lower_end: float,
    lower_step: float,
    upper_start: float,
    upper_end: float,
    upper_step: float,
) -> Pulls:
    lowers = [lower_start]
    while lowers[-1] < lower_end:
        lowers.append(min(lowers[-1] + lower_step, lower_end))
    uppers = [upper_start]
    while uppers[-1] < upper_end:
        uppers.append(min(uppers[-1] + upper_step, upper_end))
    right, wrong = b.mask & (b.A > 0), b.mask & (b.A < 0)
    tried = [(c, uppers[0]) for c in lowers] + [(lowers[-1], c) for c in uppers[1:]]
    for lower, upper in tried:
        P = (np.minimum(b.r, upper) * b.A)[right].sum()
        N = -(np.maximum(b.r, lower) * b.A)[wrong].sum()
        if share * (P + N) <= P:
            break
    return alone(surrogate(b, 1 - lower, upper - 1))


def tis(b: Batch, *, cap: float, low: float, high: float) -> Pulls:
    weight = np.minimum(np.exp(b.S_old - b.S_engine), cap)
    return alone(weight * surrogate(b, low, high))


def within(weight: Table, least: float, most: float) -> Table:
    return np.where((least <= weight) & (weight <= most), weight, 0.0)


def icepop(b: Batch, *, least: float, most: float, low: float, high: float) -> Pulls:
    weight = within(np.exp(b.S_old - b.S_engine), least, most)
    return alone(weight * surrogate(b, low, high))


def mis(b: Batch, *, least: float, most: float, low: float, high: float) -> Pulls:
    weight = within(np.exp(response_sum(b, b.S_old - b.S_engine)), least, most)
    return alone(weight * surrogate(b, low, high))


def kl_reference(b: Batch, *, beta: float, form: int, low: float, high: float) -> Pulls:
    d = b.S - b.S_ref
    slope = {1: np.ones_like(d), 2: d, 3: 1 - np.exp(-d)}[form]
    return alone(surrogate(b, low, high) - beta * slope)


BY_HAND: dict[str, Callable[..., Pulls]] = {
    "adaptive-bonus": adaptive_bonus,
    "aspo": aspo,
    "bapo": bapo,
    "ce-gppo": ce_gppo,
    "cispo": cispo,
    "clip-b": clip_b,
    "clip-cov": clip_cov,
    "clip-higher": dr_grpo,
    "clip-v": clip_v,
    "dppo": dppo,
    "dppo-engine": dppo_engine,
    "dr-grpo": dr_grpo,
    "entrocraft": entrocraft,
    "entropy-advantage": entropy_advantage,
    "entropy-bonus": entropy_bonus,
    "frontier": frontier,
    "gmpo": gmpo,
    "governor": governor,
    "grpo": grpo,
    "gspo": gspo,
    "high-entropy": high_entropy,
    "icepop": icepop,
    "kl-cov": kl_cov,
    "kl-reference": kl_reference,
    "mis": mis,
    "negative-filter": negative_filter,
    "negative-reinforced": negative_reinforced,
    "pass-at-k": pass_at_k,
    "positive-only": positive_only,
    "qae": qae,
    "repo": repo,
    "sapo": sapo,
    "stapo": stapo,
    "stare": stare,
    "steer": steer,
    "tis": tis,
    "vespo": vespo,
}
