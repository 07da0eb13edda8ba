"""Properties of per-prompt sums: what may be shuffled, split, renamed and repeated."""

import math

import numpy as np
import pytest

from entrometer.estimators import (
    Linearised,
    PromptSums,
    Responses,
    RidgeFit,
    Tables,
    Weighting,
    change_statistics,
    constant_features,
    entropy,
    entropy_change,
    entropy_statistics,
    fold_of,
    linear_term,
    quadratic_statistics,
    quadratic_term,
)

from .property import Property, catches_broken_copy, each, holds
from .tables import RandomBatch, random_batch


def robust_change(batch: RandomBatch) -> Linearised:
    return entropy_change(
        change_statistics(
            batch.responses,
            batch.here,
            batch.there,
            weighting=Weighting.DOUBLY_ROBUST,
            baseline=batch.baseline,
        )
    )


def same(a: Linearised, b: Linearised) -> None:
    assert a.value == pytest.approx(b.value, rel=1e-9, abs=1e-12)
    assert a.standard_error == pytest.approx(b.standard_error, rel=1e-9, abs=1e-12)


def unmoved_by_order(change, case):
    seed, prompts = case
    batch = random_batch(seed, prompts)
    order = np.random.default_rng(seed).permutation(batch.responses.count)
    same(change(batch.taken(order, batch.responses.prompt[order])), change(batch))


def clustered_by_runs(batch):
    # As if the responses of a prompt were always neighbours.
    prompt = batch.responses.prompt
    runs = np.cumsum(np.diff(prompt, prepend=prompt[0]) != 0)
    return robust_change(batch.taken(np.arange(prompt.size), runs))


def unmoved_by_new_names(change, case):
    seed, prompts = case
    batch = random_batch(seed, prompts)
    names = np.random.default_rng(seed).choice(10**6, size=prompts, replace=False)
    rows = np.arange(batch.responses.count)
    same(change(batch.taken(rows, names[batch.responses.prompt])), change(batch))


def names_in_few_buckets(batch):
    rows = np.arange(batch.responses.count)
    return robust_change(batch.taken(rows, batch.responses.prompt % 8))


def unmoved_by_shards(merge, case):
    seed, prompts = case
    batch = random_batch(seed, prompts)
    whole = entropy_statistics(batch.responses, batch.here.H)
    rng = np.random.default_rng(seed)
    shard = rng.integers(3, size=batch.responses.count)
    parts = []
    for s in np.unique(shard):
        rows = np.flatnonzero(shard == s)
        part = batch.taken(rows, batch.responses.prompt[rows])
        parts.append(entropy_statistics(part.responses, part.here.H))
    rng.shuffle(parts)
    same(entropy(merge(parts)), entropy(whole))


def last_part_wins(parts):
    rows = {}
    for part in parts:
        rows |= dict(zip(part.prompt, part.sums, strict=True))
    prompt = np.array(sorted(rows))
    return PromptSums(parts[0].columns, prompt, np.stack([rows[p] for p in prompt]))


def blind_to_padding(padded_entropy, case):
    seed, n = case
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 6, size=n)
    mask = np.arange(6) < length[:, None]
    H, junk = rng.random((2, n, 6))
    prompt = rng.integers(3, size=n)
    filled = np.where(mask, H, junk)
    assert padded_entropy(prompt, filled, mask) == padded_entropy(prompt, H, mask)


def entropy_of_padded(prompt, H, mask):
    return entropy(entropy_statistics(Responses.from_mask(prompt, mask), H[mask])).value


def mean_of_padded(prompt, H, mask):
    return H.mean()


def shrinks_as_two_batches(standard_error, case):
    r"""Every prompt twice, under new ids: $\sqrt{(P-1)/(2P-1)}$ of the error."""
    seed, prompts = case
    batch = random_batch(seed, prompts)
    n = batch.responses.count
    rows = np.tile(np.arange(n), 2)
    names = np.concatenate([batch.responses.prompt, batch.responses.prompt + prompts])
    once, twice = robust_change(batch), robust_change(batch.taken(rows, names))
    assert twice.value == pytest.approx(once.value, rel=1e-9, abs=1e-12)
    factor = math.sqrt((prompts - 1) / (2 * prompts - 1))
    expected = factor * standard_error(once)
    assert standard_error(twice) == pytest.approx(expected, rel=1e-9)


def error_without_the_correction(it):
    return math.sqrt(it.prompt_influence @ it.prompt_influence)


def no_step_is_no_change(change, case):
    batch = random_batch(*case)
    assert change(batch.responses, batch.here, batch.here) == 0.0


def change_of(responses, here, there):
    sums = change_statistics(responses, here, there, weighting=Weighting.SEQUENCE)
    return entropy_change(sums).value


def change_from_surprisal(responses, here, there):
    # The plain estimator before, the Rao-Blackwellised one after.
    return change_of(responses, Tables(here.S, -here.S), there)


def second_statistics(batch, tangents, curvatures):
    return quadratic_statistics(
        batch.responses,
        batch.here,
        tangents,
        curvatures,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=batch.baseline,
    )


def linear_in_the_direction(term, case):
    batch, other = random_batch(*case), random_batch(*case[:1], case[1])
    rng = np.random.default_rng(case[0])
    shuffled = type(batch.tangents)(*(rng.permutation(x) for x in other.tangents))
    mixed = type(batch.tangents)(
        *(2 * x - 3 * y for x, y in zip(batch.tangents, shuffled, strict=True))
    )
    got, a, b = (
        term(second_statistics(batch, t, batch.curvatures)).value
        for t in (mixed, batch.tangents, shuffled)
    )
    assert got == pytest.approx(2 * a - 3 * b, rel=1e-9, abs=1e-10)


def quadratic_in_the_direction(term, case):
    batch = random_batch(*case)
    doubled = type(batch.tangents)(*(2 * x for x in batch.tangents))
    curved = type(batch.curvatures)(*(4 * x for x in batch.curvatures))
    got = term(second_statistics(batch, doubled, curved)).value
    once = term(second_statistics(batch, batch.tangents, batch.curvatures)).value
    assert got == pytest.approx(4 * once, rel=1e-9, abs=1e-10)


def with_half_the_step_left_in(sums):
    both, half = quadratic_term(sums), -0.5 * linear_term(sums)
    return both - half


def pulls_add_up_to_nothing(term, case):
    batch = random_batch(*case)
    pull = term(
        second_statistics(batch, batch.tangents, batch.curvatures)
    ).prompt_influence
    assert abs(pull.sum()) < 1e-9 * (1 + np.abs(pull).max())


def at_a_known_length(sums):
    """The pull that takes the mean length as known."""
    term = quadratic_term(sums)
    T = sums.of_prompts("T")
    return Linearised(term.value, term.prompt, term.prompt_influence + T / T.sum(), 1.0)


def blind_to_its_own_fold(predict, case):
    seed, prompts = case
    batch = random_batch(seed, prompts + 20)
    fold = fold_of(batch.responses.prompt, 3)
    own = batch.responses.spread(fold) == seed % 3
    H = np.where(own, batch.here.H + 5.0, batch.here.H)
    before = predict(batch.responses, batch.here)
    after = predict(batch.responses, Tables(batch.here.S, H))
    assert after.b[own] == pytest.approx(before.b[own], rel=1e-11)


def cross_fitted(responses, here):
    X = constant_features(responses)
    return RidgeFit.of(responses, here, X, folds=3).solve().predict(responses, X)


def fitted_on_all(responses, here):
    X = constant_features(responses)
    fit = RidgeFit.of(responses, here, X, folds=3)
    turned = np.roll(np.arange(3), 1)
    # Each fold is served by what was fitted for its neighbour, itself included.
    return type(fit.solve())(fit.solve().coefficients[turned]).predict(responses, X)


def one_fold_an_id(fold, case):
    seed, folds = case
    ids = np.random.default_rng(seed).integers(-50, 50, size=200)
    got = fold(ids, folds)
    assert ((got >= 0) & (got < folds)).all()
    for i in np.unique(ids):
        assert np.unique(got[ids == i]).size == 1
    assert np.array_equal(fold(ids[::-1].copy(), folds), got[::-1])


def dealt_round(prompt, folds):
    return np.arange(prompt.size) % folds


PROPERTIES = [
    Property(
        "an estimate does not depend on the order of responses",
        unmoved_by_order,
        robust_change,
        clustered_by_runs,
    ),
    Property(
        "an estimate does not depend on the names of prompts",
        unmoved_by_new_names,
        robust_change,
        names_in_few_buckets,
    ),
    Property(
        "sums do not depend on shards and their order",
        unmoved_by_shards,
        PromptSums.merge,
        last_part_wins,
    ),
    Property(
        "padding has no say in an estimate",
        blind_to_padding,
        entropy_of_padded,
        mean_of_padded,
    ),
    Property(
        "a batch written twice keeps its value and the error of its formula",
        shrinks_as_two_batches,
        lambda it: it.standard_error,
        error_without_the_correction,
    ),
    Property(
        "no step is no change, exactly",
        no_step_is_no_change,
        change_of,
        change_from_surprisal,
    ),
    Property(
        "a linear term is linear in the direction",
        linear_in_the_direction,
        linear_term,
        quadratic_term,
    ),
    Property(
        "a quadratic term goes with the square of the direction",
        quadratic_in_the_direction,
        quadratic_term,
        with_half_the_step_left_in,
    ),
    Property(
        "pulls of all prompts add up to 0",
        pulls_add_up_to_nothing,
        quadratic_term,
        at_a_known_length,
    ),
    Property(
        "a fitted prediction does not see its own fold",
        blind_to_its_own_fold,
        cross_fitted,
        fitted_on_all,
    ),
    Property(
        "a fold is in range and depends on the id alone",
        one_fold_an_id,
        fold_of,
        dealt_round,
    ),
]


@each(PROPERTIES)
def test_holds(it):
    holds(it)


@each(PROPERTIES)
def test_catches_broken_copy(it):
    catches_broken_copy(it)
