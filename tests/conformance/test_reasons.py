"""Reasons predict coefficients to rounding, or are not given."""

from dataclasses import replace

import pytest
import torch

from entrometer.conformance.normalisers import (
    DEVIATION,
    ENTROPY,
    POLICY,
    POLICY_BY_MICRO_BATCH,
)
from entrometer.conformance.reasons import judge
from entrometer.conformance.scenarios import SPREADS, scenarios
from entrometer.interventions import intervention
from entrometer.tokens import LossCoefficients

BATCHES = scenarios(seeds=1)


def judged(text, their):
    own = intervention(text)
    ours = [own.coefficients(s.tables) for s in BATCHES]
    theirs = [their(s, c) for s, c in zip(BATCHES, ours, strict=True)]
    return judge(own, BATCHES, ours, theirs, tolerance=1e-10)


@pytest.mark.parametrize("name", [*POLICY, *POLICY_BY_MICRO_BATCH])
def test_each_normaliser_is_named_by_itself(name):
    factor = (POLICY | POLICY_BY_MICRO_BATCH)[name]
    found = judged("dr-grpo", lambda s, c: c._replace(alpha=c.alpha * factor(s)))
    assert found.reason == name
    assert found.verdict == ("other normaliser" if name in POLICY else "differs")
    assert found.rest <= 1e-10


@pytest.mark.parametrize("name", ENTROPY)
def test_each_normaliser_of_the_entropy_is_named(name):
    found = judged(
        "entropy-bonus", lambda s, c: c._replace(gamma=c.gamma * ENTROPY[name](s))
    )
    assert found.reason == name
    assert found.verdict == "other normaliser"


@pytest.mark.parametrize("name", DEVIATION)
def test_each_scale_of_the_advantages_is_named(name):
    found = judged("grpo", lambda s, c: c._replace(alpha=c.alpha * DEVIATION[name](s)))
    assert found.reason == name


def test_two_reasons_are_both_named():
    def their(s, c):
        mean = POLICY["mean over each response's tokens, then over responses"](s)
        other = intervention("kl-cov:rho=0.1,beta=2").coefficients(s.tables)
        return other._replace(alpha=other.alpha * mean)

    found = judged("kl-cov:rho=0.1", their)
    assert found.verdict == "differs"
    assert "as ours with beta times 2" in found.reason
    assert "mean over each response's tokens, then over responses" in found.reason


def test_what_has_no_simple_reason_is_not_named():
    noise = torch.Generator().manual_seed(0)

    def their(s, c):
        factor = 1 + torch.rand(c.alpha.shape, generator=noise, dtype=torch.float64)
        return c._replace(alpha=c.alpha * factor)

    found = judged("dr-grpo", their)
    assert (found.verdict, found.reason) == ("differs", "not named")
    assert found.rest > 0.1


def test_what_a_reason_leaves_is_said():
    """A part that is right but for a ten-millionth does not count as the reason."""
    mean = POLICY["mean over the tokens of the batch"]

    def their(s, c):
        alpha = c.alpha * mean(s) * (1 + 1e-7 * s.tables.S.sigmoid())
        return c._replace(alpha=alpha)

    found = judged("dr-grpo", their)
    assert found.verdict == "differs"
    assert found.reason.startswith("mean over the tokens of the batch; what is left")
    assert 1e-10 < found.rest < 1e-6


def test_a_term_off_the_clip_is_not_taken_for_a_clip():
    """A token that one of the two drops, between tokens that both keep."""

    def their(s, c):
        alpha = c.alpha.clone()
        alpha[2, 0] = 0.0
        return c._replace(alpha=alpha)

    assert judged("dr-grpo", their).reason == "not named"


def test_batches_have_what_losses_act_on():
    for s in BATCHES:
        t = s.tables
        assert t.mask[::4].all()
        assert (t.A[:, 0].reshape(-1, 4).sum(dim=1).abs() < 1e-12).all()
        # Float32 holds the rewards, so no framework rounds them.
        assert torch.equal(t.A, t.A.float().double())
    spread = {s.name: float(s.tables.ratio[s.tables.mask].max()) for s in BATCHES}
    largest = [spread[f"{name}, seed 0"] for name in SPREADS]
    assert largest[0] == 1.0
    assert 1.28 < largest[1] < 3.0 < largest[2]


def test_tables_are_of_one_distribution_each():
    t = BATCHES[-1].tables
    p = t.S.exp()
    # Σ p²(log p + H) of a distribution is at most its largest p times its mean of
    # log p + H over p, which is 0 where p is uniform.
    assert (t.H > 0).all()
    assert (p < 1).all()
    own = intervention("clip-v:mu=0.5").coefficients(t)
    assert own.alpha.isfinite().all()


def test_coefficients_of_the_same_loss_agree():
    found = judged("kl-cov:rho=0.1", lambda s, c: LossCoefficients(*c))
    assert (found.verdict, found.reason) == ("agrees", "")
    split = intervention("kl-cov:rho=0.1")
    found = judged(
        "kl-cov:rho=0.1",
        lambda s, c: replace(split, micro_batch=s.micro_batch).coefficients(s.tables),
    )
    assert found.reason == "statistics are of each micro-batch"
