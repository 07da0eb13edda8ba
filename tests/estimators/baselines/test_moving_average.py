from itertools import permutations

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import (
    PositionFit,
    Responses,
    Tables,
    fold_of,
)

FOLDS, POSITIONS = 3, 6


def random_batch(seed, longest=9):
    rng = np.random.default_rng(seed)
    responses = Responses.from_lengths(np.arange(20), rng.integers(1, longest, size=20))
    H = rng.random(responses.tokens)
    return responses, Tables(np.zeros_like(H), H)


def fit(batch, seed, longest=9):
    responses, here = random_batch(seed, longest)
    return PositionFit.of(
        responses, here, batch=batch, positions=POSITIONS, folds=FOLDS
    )


def test_average_is_the_recursion_written_out_for_each_fold_and_position():
    decay = 0.7
    # The first batch is short: later positions start with the second.
    longest = [4, 9, 9]
    got = PositionFit.merge(
        [fit(batch, batch, longest[batch]) for batch in range(3)]
    ).solve(decay=decay)
    for q in range(FOLDS):
        for position in range(POSITIONS):
            mean = None
            for batch in range(3):
                responses, here = random_batch(batch, longest[batch])
                other = responses.spread(fold_of(responses.prompt, FOLDS)) != q
                here_bin = np.minimum(responses.position, POSITIONS) == position + 1
                chosen = other & here_bin
                if not chosen.any():
                    continue
                y = np.array(
                    [
                        responses.after(here.H)[chosen].mean(),
                        responses.remaining[chosen].mean(),
                    ]
                )
                mean = y if mean is None else decay * mean + (1 - decay) * y
            expected = np.zeros(2) if mean is None else mean
            assert got.mean[q, position] == pytest.approx(expected, rel=1e-11)


def test_a_prompt_s_own_responses_never_change_its_own_prediction():
    responses, here = random_batch(0)
    fold = fold_of(responses.prompt, FOLDS)

    def predict(H):
        parts = PositionFit.of(
            responses,
            Tables(here.S, H),
            batch=0,
            positions=POSITIONS,
            folds=FOLDS,
        )
        return parts.solve().predict(responses).b

    before = predict(here.H)
    for p in np.flatnonzero(responses.length > 1):
        own = responses.spread(responses.prompt) == p
        changed = np.abs(predict(np.where(own, here.H + 3.0, here.H)) - before)
        same_fold = responses.spread(fold) == fold[p]
        assert changed[same_fold].max() < 1e-12
        first = (responses.position == 1) & ~same_fold
        assert changed[first].min() > 1e-3


def test_parts_merge_in_any_order_and_batches_keep_theirs():
    parts = [fit(0, 0), fit(1, 1), fit(1, 2), fit(2, 3)]
    first = PositionFit.merge(parts).solve().mean
    for order in permutations(parts):
        again = PositionFit.merge(iter(order)).solve().mean
        assert again == pytest.approx(first, rel=1e-11)
    swapped = PositionFit.merge([fit(2, 0), fit(1, 1), fit(1, 2), fit(0, 3)]).solve()
    assert np.abs(swapped.mean - first).max() > 1e-2


def test_tokens_past_the_last_position_share_it():
    responses, _ = random_batch(0)
    predicted = fit(0, 0).solve().predict(responses)
    late = responses.position >= POSITIONS
    fold = responses.spread(fold_of(responses.prompt, FOLDS))
    for q in range(FOLDS):
        assert np.unique(predicted.b[late & (fold == q)]).size <= 1


def test_a_position_never_reached_predicts_zero():
    short = fit(0, 0, longest=3).solve()
    responses, _ = random_batch(1)
    predicted = short.predict(responses)
    unseen = responses.position > 2
    assert unseen.any()
    assert not predicted.b[unseen].any()
    assert not predicted.c[unseen].any()


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_that_is_none_is_refused(decay):
    with pytest.raises(InvalidValue, match="0 <= decay < 1"):
        fit(0, 0).solve(decay=decay)


def test_no_batch_is_refused():
    with pytest.raises(InvalidValue, match="at least one batch"):
        PositionFit.merge([]).solve()


def test_parts_with_other_positions_do_not_merge():
    """Even with one position, which NumPy would stretch over all."""
    responses, here = random_batch(1)
    single = PositionFit.of(responses, here, batch=0, positions=1, folds=FOLDS)
    with pytest.raises(ValueError, match="positions"):
        PositionFit.merge([fit(0, 0), single])
