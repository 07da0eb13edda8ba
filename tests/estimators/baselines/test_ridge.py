from itertools import permutations

import numpy as np
import pytest

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators import (
    Responses,
    RidgeFit,
    Tables,
    Tangents,
    Weighting,
    constant_features,
    fold_of,
    linear_statistics,
    linear_term,
    prefix_features,
)

FOLDS = 4


def random_batch(seed=0, prompts=24):
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 9, size=2 * prompts)
    responses = Responses.from_lengths(np.repeat(np.arange(prompts), 2), length)
    S, H = -rng.random(responses.tokens), rng.random(responses.tokens)
    return responses, Tables(S, H)


def test_a_prompt_s_own_responses_never_change_its_own_prediction():
    responses, here = random_batch()
    X = np.stack([np.ones(responses.tokens), responses.position], axis=1)
    fold = responses.spread(fold_of(responses.prompt, FOLDS))
    before = RidgeFit.of(responses, here, X, folds=FOLDS).solve().predict(responses, X)
    for p in range(24):
        own = responses.spread(responses.prompt) == p
        H = np.where(own, here.H + 3.0, here.H)
        fit = RidgeFit.of(responses, Tables(here.S, H), X, folds=FOLDS)
        after = fit.solve().predict(responses, X)
        changed = np.abs(after.b - before.b)
        same_fold = fold == fold[own][0]
        assert changed[same_fold].max() < 1e-12
        if (responses.length[responses.prompt == p] > 1).any():
            assert changed[~same_fold].min() > 1e-6


def test_however_large_a_prompt_s_own_entropies_are():
    """Taking a fold off the total would leave the rounding of the fold behind."""
    responses, here = random_batch()
    X = constant_features(responses)
    before = RidgeFit.of(responses, here, X, folds=FOLDS).solve().predict(responses, X)
    own = responses.spread(fold_of(responses.prompt, FOLDS)) == 0
    H = np.where(own, 1e12 * here.H, here.H)
    fit = RidgeFit.of(responses, Tables(here.S, H), X, folds=FOLDS)
    after = fit.solve().predict(responses, X)
    assert after.b[own] == pytest.approx(before.b[own], rel=1e-12)


def test_a_linear_truth_is_recovered():
    r"""$M_k = T - k$ is linear in k and T; with both as features c is exact."""
    responses, here = random_batch()
    T = responses.spread(responses.length.astype(float))
    X = np.stack([np.ones_like(T), responses.position, T], axis=1)
    fit = RidgeFit.of(responses, here, X, folds=FOLDS).solve(penalty=0.0)
    assert fit.predict(responses, X).c == pytest.approx(responses.remaining, abs=1e-10)
    expected = np.tile([0.0, -1.0, 1.0], (FOLDS, 1))
    assert fit.coefficients[:, :, 1] == pytest.approx(expected, abs=1e-10)


def test_constant_features_give_the_mean_of_the_other_folds():
    responses, here = random_batch()
    X = constant_features(responses)
    got = RidgeFit.of(responses, here, X, folds=FOLDS).solve().predict(responses, X)
    fold = responses.spread(fold_of(responses.prompt, FOLDS))
    G = responses.after(here.H)
    for q in range(FOLDS):
        assert got.b[fold == q] == pytest.approx(G[fold != q].mean(), rel=1e-12)
        mean = responses.remaining[fold != q].mean()
        assert got.c[fold == q] == pytest.approx(mean, rel=1e-12)


def test_penalty_shrinks_every_coefficient_but_the_intercept():
    responses, here = random_batch()
    X = prefix_features(responses, here)
    fit = RidgeFit.of(responses, here, X, folds=FOLDS)
    heavy = fit.solve(penalty=1e9).coefficients
    assert np.abs(heavy[:, 1:]).max() < 1e-6
    plain = RidgeFit.of(responses, here, X[:, :1], folds=FOLDS).solve()
    assert heavy[:, :1] == pytest.approx(plain.coefficients, rel=1e-5)


def test_chunks_merge_in_any_order():
    chunks = []
    for seed in range(3):
        responses, here = random_batch(seed)
        moved = Responses(responses.prompt + 100 * seed, responses.start)
        X = prefix_features(moved, here)
        chunks.append(RidgeFit.of(moved, here, X, folds=FOLDS))
    first = RidgeFit.merge(chunks).solve().coefficients
    for order in permutations(chunks):
        again = RidgeFit.merge(iter(order)).solve().coefficients
        assert again == pytest.approx(first, rel=1e-9)


def test_whole_is_the_merge_of_its_chunks():
    responses, here = random_batch()
    X = prefix_features(responses, here)
    whole = RidgeFit.of(responses, here, X, folds=FOLDS)
    middle = responses.start[20]
    halves = []
    for rows, tokens in (
        (slice(None, 20), slice(None, middle)),
        (slice(20, None), slice(middle, None)),
    ):
        part = Responses.from_lengths(responses.prompt[rows], responses.length[rows])
        tables = Tables(here.S[tokens], here.H[tokens])
        halves.append(RidgeFit.of(part, tables, X[tokens], folds=FOLDS))
    merged = RidgeFit.merge(halves)
    assert merged.gram == pytest.approx(whole.gram, rel=1e-12)
    assert merged.moment == pytest.approx(whole.moment, rel=1e-12)


def test_fitted_on_the_batch_it_takes_noise_off_the_slope(world):
    """The point of it: over 40 batches the variance falls, by more than its noise."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(40):
        rows = world.draw(rng, 96)
        responses, index = world.layout(rows)
        here = Tables(*(x[index] for x in world.here))
        tangents = Tangents(*(x[index] for x in world.tangents))
        X = prefix_features(responses, here)
        b = RidgeFit.of(responses, here, X).solve().predict(responses, X)
        variance = {}
        for weighting in (Weighting.PER_DECISION, Weighting.DOUBLY_ROBUST):
            sums = linear_statistics(
                responses,
                here,
                tangents,
                weighting=weighting,
                baseline=b if weighting is Weighting.DOUBLY_ROBUST else None,
            )
            variance[weighting] = linear_term(sums, per="sequence").standard_error ** 2
        gains.append(
            1 - variance[Weighting.DOUBLY_ROBUST] / variance[Weighting.PER_DECISION]
        )
    assert np.mean(gains) > 0.3
    assert np.mean(gains) > 5 * np.std(gains) / 40**0.5


def test_a_fold_with_no_others_is_refused():
    responses = Responses.from_lengths(np.zeros(3, int), np.ones(3, int))
    here = Tables(np.zeros(3), np.zeros(3))
    fit = RidgeFit.of(responses, here, constant_features(responses), folds=FOLDS)
    with pytest.raises(InvalidValue, match="use more prompts or fewer folds"):
        fit.solve()


def test_prediction_with_other_features_is_refused():
    responses, here = random_batch()
    X = prefix_features(responses, here)
    fit = RidgeFit.of(responses, here, X, folds=FOLDS).solve()
    with pytest.raises(ShapeMismatch, match="expected the 6 features of the fit"):
        fit.predict(responses, constant_features(responses))


def test_parts_with_other_features_do_not_merge():
    responses, here = random_batch()
    parts = [
        RidgeFit.of(responses, here, X, folds=FOLDS)
        for X in (constant_features(responses), prefix_features(responses, here))
    ]
    for unlike in (parts, []):
        with pytest.raises(InvalidValue, match="the same folds and features"):
            RidgeFit.merge(unlike)
