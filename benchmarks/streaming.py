"""Ten million tokens through the estimators, in chunks, shards and any order."""

import resource
import time

import numpy as np

from benchmarks.harness import Check, Report, worst
from entrometer.estimators import (
    Curvatures,
    PromptSums,
    Responses,
    RidgeBaseline,
    RidgeFit,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    entropy_change,
    linear_term,
    prefix_features,
    quadratic_statistics,
    quadratic_term,
)

TOKENS = 10_000_000
CHUNK_RESPONSES = 1000
MEAN_LENGTH = 100
CHUNKS = TOKENS // (CHUNK_RESPONSES * MEAN_LENGTH)
SHARDS = (1, 7, 64)


def run() -> Report:
    start = time.perf_counter()
    tokens = 0
    fits = []
    for chunk in range(CHUNKS):
        responses, here, *_ = synthetic(chunk)
        tokens += responses.tokens
        features = prefix_features(responses, here)
        fits.append(RidgeFit.of(responses, here, features))
    fit_seconds = time.perf_counter() - start
    baseline = RidgeFit.merge(fits).solve()
    results = []
    seconds = []
    for shards in SHARDS:
        start = time.perf_counter()
        results.append(measure(shards, baseline))
        seconds.append(time.perf_counter() - start)
    first = np.array(results[0])
    spread = [np.abs(np.array(r) / first - 1).max() for r in results[1:]]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Report(
        [
            Check("streaming.tokens", tokens, at_least=TOKENS * 0.99),
            Check("streaming.peak_memory_gib", peak, at_most=1.0),
            Check("streaming.shards_relative_difference", worst(spread), at_most=1e-12),
        ],
        {
            "shards": list(SHARDS),
            "tokens_per_second.fit_ridge": round(tokens / fit_seconds),
            "tokens_per_second.change_linear_quadratic": [
                round(tokens / s) for s in seconds
            ],
        },
    )


def measure(shards: int, baseline: RidgeBaseline) -> list[float]:
    """Values and standard errors from shards that were merged in random order."""
    rng = np.random.default_rng(shards)
    order = rng.permutation(CHUNKS)
    parts = [
        (
            PromptSums.merge(change(chunk, baseline) for chunk in shard),
            PromptSums.merge(second(chunk, baseline) for chunk in shard),
        )
        for shard in np.array_split(order, shards)
    ]
    rng.shuffle(parts)
    changes = PromptSums.merge(part[0] for part in parts)
    seconds = PromptSums.merge(part[1] for part in parts)
    estimates = [
        entropy_change(changes),
        entropy_change(changes, per="sequence"),
        linear_term(seconds),
        quadratic_term(seconds),
    ]
    return [x for e in estimates for x in (e.value, e.standard_error)]


def change(chunk: int, baseline: RidgeBaseline) -> PromptSums:
    responses, here, there, *_ = synthetic(chunk)
    return change_statistics(
        responses,
        here,
        there,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=baseline.predict(responses, prefix_features(responses, here)),
    )


def second(chunk: int, baseline: RidgeBaseline) -> PromptSums:
    responses, here, _, tangents, curvatures = synthetic(chunk)
    return quadratic_statistics(
        responses,
        here,
        tangents,
        curvatures,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=baseline.predict(responses, prefix_features(responses, here)),
    )


def synthetic(chunk: int) -> tuple[Responses, Tables, Tables, Tangents, Curvatures]:
    """One chunk: lognormal lengths, two responses a prompt that lie chunks apart."""
    rng = np.random.default_rng(chunk)
    draw = np.exp(rng.normal(size=CHUNK_RESPONSES))
    length = np.maximum(1, np.rint(draw / draw.mean() * MEAN_LENGTH)).astype(np.int64)
    half = CHUNKS // 2
    prompt = (chunk % half) * CHUNK_RESPONSES + np.arange(CHUNK_RESPONSES)
    responses = Responses.from_lengths(prompt, length)
    K = responses.tokens
    S, H = -rng.exponential(0.3, K), rng.exponential(0.4, K)
    dS, dH, ddS, ddH = rng.normal(size=(4, K))
    eta = 1e-3
    there = Tables(S + eta * dS + eta**2 * ddS / 2, H + eta * dH + eta**2 * ddH / 2)
    return responses, Tables(S, H), there, Tangents(dS, dH), Curvatures(ddS, ddH)
