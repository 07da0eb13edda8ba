import numpy as np
import pytest
import torch

from benchmarks.enumerated import Enumerated, random_direction, sampled
from entrometer import calculus
from entrometer.errors import InvalidValue
from entrometer.estimators import (
    FoldContributions,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
    influence_parts,
    linear_statistics,
    linear_term,
    summed,
    token_influence,
)

TOKENS, FOLDS, PROMPTS = 3, 8, 160


@pytest.fixture(scope="module")
def directions(world):
    """Per-response statistics along the update of each of three tokens."""
    updates = [random_direction(world.theta, 100 + k) for k in range(TOKENS)]
    moving = [Enumerated(world.policy, world.theta, v) for v in updates]
    return [
        linear_statistics(
            along.responses,
            along.here,
            along.tangents,
            weighting=Weighting.PER_DECISION,
        )
        for along in moving
    ]


def contributions(directions, rows) -> FoldContributions:
    """What a pass would write for a batch of drawn rows, split into folds."""
    drawn = [sampled(sums, rows) for sums in directions]
    fold = np.arange(rows.size) % FOLDS
    H, T = drawn[0].of_prompts("H"), drawn[0].of_prompts("T")
    R = H.sum() / T.sum()

    def by_fold(x):
        return np.bincount(fold, x / T.sum(), minlength=FOLDS)

    return FoldContributions(
        parts=np.stack(
            [by_fold(s.of_prompts("N1") - R * s.of_prompts("D1")) for s in drawn]
        ),
        size=by_fold(T),
        residual=by_fold(H - R * T),
        length=np.array([s.total("D1") for s in drawn]) / T.sum(),
    )


def test_value_is_the_linear_term_along_the_token_s_own_update(world, directions):
    rows = world.draw(np.random.default_rng(0), PROMPTS)
    got = token_influence(
        contributions(directions, rows), prompts=PROMPTS, responses=PROMPTS
    )
    expected = [linear_term(sampled(sums, rows)).value for sums in directions]
    assert got.value == pytest.approx(expected, rel=1e-11)


def test_standard_error_by_folds_is_the_exact_deviation(world, directions):
    """Mean of the squared errors and spread of the values, both to 4 deviations."""
    rng = np.random.default_rng(1)
    batches = 1500
    got = [
        token_influence(
            contributions(directions, world.draw(rng, PROMPTS)),
            prompts=PROMPTS,
            responses=PROMPTS,
        )
        for _ in range(batches)
    ]
    for k, sums in enumerate(directions):
        whole = linear_term(world.expectation(sums))
        p = world.probability
        V = float(p @ (whole.prompt_influence / p) ** 2) / PROMPTS
        squared = np.array([x.standard_error[k] ** 2 for x in got]) / V
        spread = np.array([(x.value[k] - whole.value) ** 2 for x in got]) / V
        for ratio in (squared, spread):
            noise = 4 * ratio.std() / batches**0.5
            assert noise < 0.2
            assert abs(ratio.mean() - 1) < noise + 4 / PROMPTS


def test_noise_of_the_ratio_alone_is_an_error_too():
    """A token that only lengthens responses: what R is off by is all its error."""
    folds = FoldContributions(
        parts=np.zeros((1, 2)),
        size=np.full(2, 0.5),
        residual=np.array([0.1, -0.1]),
        length=np.array([3.0]),
    )
    got = token_influence(folds, prompts=2, responses=2)
    assert got.standard_error[0] == pytest.approx((2 * 2 * 0.3**2) ** 0.5, rel=1e-14)


def test_mean_over_equal_folds_has_the_standard_error_of_the_textbook():
    y = np.array([1.0, 4.0, 2.0, 9.0])
    folds = FoldContributions(parts=(y / 4)[None], size=np.full(4, 0.25))
    got = token_influence(folds, prompts=4, responses=8)
    assert got.value[0] == 4.0
    assert got.standard_error[0] == pytest.approx(y.std(ddof=1) / 2, rel=1e-14)
    estimate = got[0]
    assert estimate.prompts == 4
    assert estimate.effective_samples == 8.0
    assert estimate.high > 4.0 > estimate.low


def test_sums_by_group_add_parts_and_not_squared_errors(world, directions):
    rows = world.draw(np.random.default_rng(3), PROMPTS)
    tokens = contributions(directions, rows)
    group = np.array([1, 1, 0])
    got = token_influence(summed(tokens, group, 2), prompts=1, responses=1)
    single = token_influence(tokens, prompts=1, responses=1)
    assert got.value == pytest.approx(
        [single.value[2], single.value[0] + single.value[1]], rel=1e-13
    )
    assert got.standard_error[0] == pytest.approx(single.standard_error[2], rel=1e-12)
    # The error of the pair is that of a token whose parts are the pair's.
    pair = FoldContributions(
        parts=tokens.parts[:2].sum(axis=0)[None],
        size=tokens.size,
        residual=tokens.residual,
        length=tokens.length[:2].sum()[None],
    )
    expected = token_influence(pair, prompts=1, responses=1).standard_error[0]
    assert got.standard_error[1] == pytest.approx(expected, rel=1e-12)
    naive = np.hypot(*single.standard_error[:2])
    assert abs(got.standard_error[1] / naive - 1) > 0.02


def test_a_group_without_tokens_has_no_influence():
    tokens = FoldContributions(parts=np.ones((1, 2)), size=np.full(2, 0.5))
    got = token_influence(summed(tokens, np.array([2]), 4), prompts=2, responses=2)
    assert got.value.tolist() == [0.0, 0.0, 2.0, 0.0]


def test_parts_of_all_tokens_add_up_to_the_linear_term_on_the_batch(world, batch):
    r"""One reverse pass over E, one forward pass over U: $\sum I = \nabla h\cdot v$."""
    rng = np.random.default_rng(4)
    alpha, gamma = rng.normal(size=(2, world.responses.tokens))
    tables = world.mask.shape

    def padded(column):
        table = torch.zeros(tables, dtype=torch.float64)
        table[world.mask] = torch.as_tensor(column)
        return table

    v = calculus.vjp(world.padded, world.theta, (padded(alpha), padded(gamma))).gradient
    here = batch.of(world.here)
    weights = entropy_gradient_weights(
        batch.responses,
        here,
        entropy_statistics(batch.responses, here.H),
        weighting=Weighting.PER_DECISION,
    )
    on_tokens = [np.bincount(batch.index, w, world.responses.tokens) for w in weights]
    u = calculus.vjp(world.padded, world.theta, [padded(w) for w in on_tokens]).gradient
    along_u = Enumerated(world.policy, world.theta, u).tangents
    parts = influence_parts(alpha, gamma, along_u.dS[:, None], along_u.dH[:, None])
    along_v = Enumerated(world.policy, world.theta, v).tangents
    expected = linear_term(
        linear_statistics(
            batch.responses, here, batch.of(along_v), weighting=Weighting.PER_DECISION
        )
    ).value
    assert parts.sum() == pytest.approx(expected, rel=1e-10)


def test_one_fold_is_refused():
    one = FoldContributions(parts=np.ones((2, 1)), size=np.ones(1))
    with pytest.raises(InvalidValue, match="at least 2 folds"):
        token_influence(one, prompts=1, responses=1)
