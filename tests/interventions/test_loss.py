import math

import pytest
import torch

from entrometer.errors import ShapeMismatch
from entrometer.interventions import intervention, register
from tests.interventions.hand import hand, same, table
from tests.interventions.on_policy import ON_POLICY, batch


def test_one_that_does_not_adapt_stays():
    found = intervention("steer:lowest=0.5")
    assert found.adapted(0.0) is found


def test_one_that_adapts_keeps_its_micro_batch():
    after = intervention("adaptive-bonus:micro_batch=2").adapted(0.0)
    assert after == intervention("adaptive-bonus:alpha=0.015,micro_batch=2")


@pytest.mark.parametrize("name", ["dr-grpo", "grpo", *ON_POLICY])
@pytest.mark.parametrize("size", [1, 4, 6, 100])
def test_a_micro_batch_is_the_function_on_chunks(name, size):
    tables = batch()
    whole = intervention(name)
    expected = torch.cat(
        [
            whole.remedy.function(tables.rows(slice(i, i + size)))
            for i in range(0, 6, size)
        ]
    )
    text = f"{name}:micro_batch={size}"
    assert intervention(text).token_losses(tables).equal(expected)
    if size >= 6:
        assert expected.equal(whole.token_losses(tables))


@pytest.mark.parametrize("name", ["dr-grpo", "positive-only", "negative-reinforced"])
def test_what_goes_by_token_goes_by_any_micro_batch(name):
    assert intervention(name).remedy.by_token
    tables = batch()
    chunked = intervention(f"{name}:micro_batch=1").token_losses(tables)
    assert chunked.equal(intervention(name).token_losses(tables))


# Settings at which each of them acts on this batch.
ACTING = {
    "adaptive-bonus": "adaptive-bonus:target=1",
    "clip-b": "clip-b:mu=1",
    "clip-cov": "clip-cov:lower=0.1",
    "clip-v": "clip-v:mu=0.5",
}


@pytest.mark.parametrize("name", ON_POLICY)
def test_on_policy_each_differs_from_plain(name):
    assert intervention(name).remedy.on_policy
    tables = batch(ratios=False)
    own = intervention(ACTING.get(name, name)).coefficients(tables)
    plain = intervention("dr-grpo").coefficients(tables)
    assert (own.alpha - plain.alpha).abs().max() + own.gamma.abs().max() > 1e-5


@pytest.mark.parametrize("name", ["dr-grpo", "grpo", *ON_POLICY])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_what_is_off_the_mask_has_no_effect(name, junk):
    tables = batch()
    off = ~tables.mask
    filled = {
        key: getattr(tables, key).masked_fill(off, junk)
        for key in ("S", "S_old", "H", "A", "concentration")
    }
    influence = tuple(part.masked_fill(off, junk) for part in tables.influence)
    found = intervention(ACTING.get(name, name))
    padded = batch(**filled, influence=influence)
    assert found.loss(padded).equal(found.loss(tables))
    for got, expected in zip(
        found.coefficients(padded), found.coefficients(tables), strict=True
    ):
        assert got.equal(expected)
        assert got[off].eq(0.0).all()


def test_coefficients_are_derivatives_of_the_loss():
    # By hand at one token: L = -(rA)/5 - 0.3·H, r = 1.1 and A = 0.5.
    found = intervention("entropy-bonus:alpha=0.3").coefficients(
        hand(p=[[0.5]], r=1.1, A=[[0.5]])
    )
    same(found.alpha, table([[0.11]]))
    same(found.gamma, table([[0.3]]))


def test_a_loss_that_is_no_table_is_refused():
    register("toy-summed")(lambda tables: tables.S.sum())
    with pytest.raises(ShapeMismatch, match="one loss per token"):
        intervention("toy-summed").loss(batch())
