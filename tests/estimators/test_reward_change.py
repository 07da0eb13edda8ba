import numpy as np
import pytest

from entrometer import oracles
from entrometer.errors import InvalidValue
from entrometer.estimators import (
    PromptSums,
    Responses,
    Tangents,
    reward_change,
    reward_change_statistics,
    reward_gradient_weights,
    reward_slope_statistics,
)

BASELINES = ["group", "batch"]
each_baseline = pytest.mark.parametrize("baseline", BASELINES)


@pytest.fixture
def rewards(world):
    return oracles.random_rewards(world.policy, 0)


def test_expectation_of_the_slope_is_the_exact_derivative(world, rewards):
    """Without a baseline; the tests below show that none costs any bias."""
    sums = world.expectation(
        reward_slope_statistics(
            world.responses, rewards.flatten().numpy(), world.tangents
        )
    )
    f = oracles.expected_reward(world.policy, rewards)
    exact = oracles.first_derivative(f, world.theta, world.v)
    assert sums.total("rx") == pytest.approx(exact, rel=1e-10)
    assert abs(sums.total("x")) < 1e-14


def test_expectation_of_the_change_is_the_exact_one(world, rewards):
    sums = world.expectation(
        reward_change_statistics(
            world.responses, rewards.flatten().numpy(), world.here, world.tables(0.3)
        )
    )
    f = oracles.expected_reward(world.policy, rewards)
    moved = oracles.moved(world.theta, world.v, 0.3)
    exact = float(f(moved) - f(world.theta))
    assert sums.total("rx") == pytest.approx(exact, rel=1e-10)


@each_baseline
def test_slope_and_change_on_a_batch_are_a_matched_pair(
    world, batch, rewards, baseline
):
    r = rewards.flatten().numpy()[batch.rows]
    slope = reward_change(
        reward_slope_statistics(batch.responses, r, batch.of(world.tangents)),
        baseline=baseline,
    ).value
    etas = np.array([1e-2, 1e-3, 1e-4])
    left = []
    for eta in etas:
        sums = reward_change_statistics(
            batch.responses, r, batch.of(world.here), batch.of(world.tables(eta))
        )
        left.append(abs(reward_change(sums, baseline=baseline).value - eta * slope))
    order = np.polyfit(np.log(etas), np.log(left), 1)[0]
    assert order == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize(
    ("prompts", "group", "baseline"),
    [(4, 3, "group"), (3, 3, "batch"), (6, 1, "batch"), (2, 8, "batch")],
)
def test_a_baseline_of_other_responses_is_unbiased(
    world, rewards, prompts, group, baseline
):
    """6,000 batches of groups that share their prompt, to 4 deviations of the mean."""
    batches = 6000
    r = rewards.flatten().numpy()
    x = world.responses.total(world.tangents.dS)
    exact = oracles.first_derivative(
        oracles.expected_reward(world.policy, rewards), world.theta, world.v
    )
    per_prompt = world.probability.reshape(world.policy.prompts, -1)
    M = per_prompt.shape[1]
    rng = np.random.default_rng(0)
    prompt = rng.integers(world.policy.prompts, size=(batches, prompts))
    edges = np.cumsum(per_prompt, axis=1) * world.policy.prompts
    edges[:, -1] = 1.0
    uniform = rng.random((batches, prompts, group))
    picked = (uniform[..., None] > edges[prompt][:, :, None]).sum(axis=-1)
    rows = prompt[..., None] * M + picked
    columns = ("responses", "r", "x", "rx")
    stacked = np.stack(
        [
            np.full((batches, prompts), float(group)),
            r[rows].sum(axis=-1),
            x[rows].sum(axis=-1),
            (r * x)[rows].sum(axis=-1),
        ],
        axis=-1,
    )
    ids = np.arange(prompts)
    values = [
        reward_change(PromptSums(columns, ids, sums), baseline=baseline).value
        for sums in stacked
    ]
    error = np.std(values) / batches**0.5
    assert error < 0.07 * abs(exact)
    assert abs(np.mean(values) - exact) < 4 * error


@each_baseline
def test_value_is_the_definition_response_by_response(world, batch, rewards, baseline):
    """The mean of the others: of the same prompt, or of all the other prompts."""
    r = rewards.flatten().numpy()[batch.rows]
    prompt = batch.responses.prompt
    tangents = batch.of(world.tangents)
    x = batch.responses.total(tangents.dS)
    total = 0.0
    for i in range(r.size):
        others = prompt != prompt[i]
        if baseline == "group":
            others = (prompt == prompt[i]) & (np.arange(r.size) != i)
        total += (r[i] - r[others].mean()) * x[i]
    sums = reward_slope_statistics(batch.responses, r, tangents)
    got = reward_change(sums, baseline=baseline).value
    assert got == pytest.approx(total / r.size, rel=1e-11)


@each_baseline
def test_gradient_weights_give_the_slope_in_any_chunks(world, batch, rewards, baseline):
    r = rewards.flatten().numpy()[batch.rows]
    tangents = batch.of(world.tangents)
    whole = reward_slope_statistics(batch.responses, r, tangents)
    cut = 20
    middle = batch.responses.start[cut]
    total = 0.0
    for rows, tokens in (
        (slice(None, cut), slice(None, middle)),
        (slice(cut, None), slice(middle, None)),
    ):
        chunk = Responses.from_lengths(
            batch.responses.prompt[rows], batch.responses.length[rows]
        )
        weights = reward_gradient_weights(chunk, r[rows], whole, baseline=baseline)
        total += weights.S @ tangents.dS[tokens]
        assert not weights.H.any()
    expected = reward_change(whole, baseline=baseline).value
    assert total == pytest.approx(expected, rel=1e-11)


@each_baseline
def test_standard_error_is_the_deviation_over_batches(world, rewards, baseline):
    """1,500 batches of 48 prompts with two responses; both to 4 deviations."""
    rng = np.random.default_rng(0)
    r = rewards.flatten().numpy()
    x = world.responses.total(world.tangents.dS)
    prompt = np.repeat(np.arange(48), 2)
    got = []
    for _ in range(1500):
        # Pairs of one prompt: its responses are a block of the enumeration.
        first = world.draw(rng, 48)
        block = first // 31 * 31
        p = world.probability.reshape(-1, 31)[first // 31]
        edges = np.cumsum(p, axis=1) / p.sum(axis=1, keepdims=True)
        second = block + (rng.random((48, 1)) > edges[:, :-1]).sum(axis=1)
        rows = np.stack([first, second], axis=1).reshape(-1)
        sums = PromptSums.of(
            prompt, responses=np.ones(96), r=r[rows], x=x[rows], rx=(r * x)[rows]
        )
        got.append(reward_change(sums, baseline=baseline))
    squared = np.array([g.standard_error**2 for g in got])
    values = np.array([g.value for g in got])
    V = values.var(ddof=1)
    known = 4 * np.std((values - values.mean()) ** 2 / V) / 1500**0.5
    assert known < 0.25
    assert abs(squared.mean() / V - 1) < known + 2 / 48


@each_baseline
def test_no_step_is_no_change_and_equal_rewards_have_none(
    world, batch, rewards, baseline
):
    r = rewards.flatten().numpy()[batch.rows]
    here = batch.of(world.here)
    still = reward_change_statistics(batch.responses, r, here, here)
    assert reward_change(still, baseline=baseline).value == 0.0
    ones = reward_slope_statistics(
        batch.responses, np.ones_like(r), batch.of(world.tangents)
    )
    got = reward_change(ones, baseline=baseline)
    assert abs(got.value) < 1e-15
    assert got.standard_error < 1e-15


def test_weights_are_reported(world, batch, rewards):
    r = rewards.flatten().numpy()[batch.rows]
    here, there = batch.of(world.here), batch.of(world.tables(0.5))
    w = np.exp(batch.responses.total(there.S - here.S))
    got = reward_change(reward_change_statistics(batch.responses, r, here, there))
    assert got.largest_weight == pytest.approx(w.max(), rel=1e-13)
    assert got.effective_samples == pytest.approx(w.sum() ** 2 / (w**2).sum())


def small(prompt):
    responses = Responses.from_lengths(np.array(prompt), np.ones(len(prompt), int))
    still = Tangents(*np.zeros((2, len(prompt))))
    return reward_slope_statistics(responses, np.zeros(len(prompt)), still)


def test_a_group_of_one_and_a_batch_of_one_prompt_are_refused():
    with pytest.raises(InvalidValue, match="pass baseline='batch'"):
        reward_change(small([0, 0, 1]))
    with pytest.raises(InvalidValue, match="at least 2 prompts for baseline='batch'"):
        reward_change(small([0, 0]), baseline="batch")


def test_a_misspelt_baseline_is_refused_with_the_nearest():
    sums = PromptSums(("responses", "r", "x", "rx"), np.arange(2), np.full((2, 4), 2.0))
    with pytest.raises((InvalidValue, TypeError), match="group"):
        reward_change(sums, baseline="grop")


def test_a_part_of_a_batch_may_take_the_whole_batch_s_mean_off():
    prompt, r = np.array([0, 1, 2, 3]), np.array([1.0, 0.0, 1.0, 1.0])
    dS = np.array([0.5, -1.0, 2.0, 0.25])

    def sums(rows):
        responses = Responses.from_lengths(prompt[rows], np.ones(len(rows), int))
        tangents = Tangents(dS=dS[rows], dH=np.zeros(len(rows)))
        return reward_slope_statistics(responses, r[rows], tangents)

    rows = [1, 3]
    found = reward_change(sums(rows), baseline="batch", whole=sums([0, 1, 2, 3]))
    others = [(r.sum() - r[i]) / 3 for i in rows]
    expected = np.mean((r[rows] - others) * dS[rows])
    assert found.value == pytest.approx(expected, rel=1e-14)
    itself = reward_change(sums(rows), baseline="batch", whole=sums(rows))
    assert itself.value == reward_change(sums(rows), baseline="batch").value
