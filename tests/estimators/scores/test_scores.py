"""Each score against its definition, and the tabular one against a step."""

import numpy as np
import pytest

from entrometer.estimators.scores import SCORES, TokenColumns

RNG = np.random.default_rng(0)
V = 5


@pytest.fixture(scope="module")
def world():
    """Prefixes with logits of their own, a token drawn at each."""
    z = RNG.normal(size=(12, V))
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    p = np.exp(log_p)
    H = -(p * log_p).sum(axis=1)
    y = np.array([RNG.choice(V, p=row) for row in p])
    columns = TokenColumns(
        A=RNG.normal(size=12),
        S=log_p[np.arange(12), y],
        H=H,
        position=np.tile(np.arange(4.0), 3),
        length=np.full(12, 4.0),
        pass_rate=np.repeat([0.0, 0.5, 1.0], 4),
        surplus=(p**2 * (log_p + H[:, None])).sum(axis=1),
    )
    return z, y, columns


def scored(world, name):
    return SCORES[name][0](world[2])


def test_the_tabular_score_is_the_change_that_a_step_on_logits_makes(world):
    z, y, x = world
    eta, rows = 1e-6, np.arange(12)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    step = -p
    step[rows, y] += 1
    step *= x.A[:, None]

    def entropy(z):
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        return -(p * np.log(p)).sum(axis=1)

    slope = (entropy(z + eta * step) - entropy(z - eta * step)) / (2 * eta)
    np.testing.assert_allclose(scored(world, "tabular softmax"), slope, rtol=1e-7)


def test_scores_are_their_definitions(world):
    x = world[2]
    p = np.exp(x.S)
    expected = {
        "cov": (x.A - x.A.mean()) * (x.S - x.S.mean()),
        "p(H + log p)": p * (x.H + x.S),
        "STEER": x.A / p * p * (1 - p) * (x.S + x.H),
        "surprisal": -x.S,
        "A log p": x.A * x.S,
        "entropy": x.H,
        "|A|": np.abs(x.A),
        "position": x.position,
        "pass rate": x.pass_rate,
        "length": x.length,
    }
    assert set(expected) == set(SCORES) - {"tabular softmax"}
    for name, values in expected.items():
        np.testing.assert_allclose(scored(world, name), values, rtol=1e-13)
