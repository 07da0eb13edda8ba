import math

import pytest
import torch

from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch
from entrometer.interventions import (
    Intervention,
    intervention,
    intervention_names,
    register,
)
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
    "repo": "repo:zeta=0.05",
    "stapo": "stapo:unlikely=0.5",
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
        for key in (
            *("S", "S_old", "H", "A"),
            *("concentration", "S_engine", "S_ref"),
        )
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


def test_a_name_alone_has_the_defaults():
    found = intervention("clip-cov")
    assert dict(found.settings) == {
        "rho": 2e-4,
        "lower": 1.0,
        "upper": 5.0,
        "low": 1.0,
        "high": 1.0,
    }
    assert found.micro_batch == 0
    assert str(found) == "clip-cov"


def test_settings_are_read_in_any_order():
    found = intervention("clip-cov:upper=7,rho=1e-3,micro_batch=4")
    assert dict(found.settings)["rho"] == 1e-3
    assert dict(found.settings)["upper"] == 7.0
    assert found.micro_batch == 4
    assert found == intervention("clip-cov:micro_batch=4,rho=0.001,upper=7.0")
    assert found != intervention("clip-cov:rho=0.001,upper=7")
    assert hash(found) == hash(intervention("clip-cov:micro_batch=4,rho=0.001,upper=7"))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("dr-grpo:low=0.2", "dr-grpo"),
        ("clip-cov:upper=7,rho=0.001", "clip-cov:rho=0.001,upper=7"),
        ("steer:micro_batch=3", "steer:micro_batch=3"),
        ("steer:lowest=0.1234567890123456", "steer:lowest=0.1234567890123456"),
        ("dr-grpo:high=inf", "dr-grpo:high=inf"),
    ],
)
def test_what_is_written_is_read_back(text, written):
    assert str(intervention(text)) == written
    assert intervention(written) == intervention(text)
    assert intervention(intervention(text).text) == intervention(text)


def test_the_text_of_a_key_has_every_setting():
    found = intervention("positive-only:negative=0.5,micro_batch=2")
    assert found.text == "positive-only:negative=0.5,low=0.2,high=0.2,micro_batch=2"


def test_every_strength_is_read_back():
    for name in intervention_names():
        remedy = intervention(name).remedy
        for value in remedy.strengths:
            found = intervention(f"{name}:{remedy.strength}={value}")
            assert dict(found.settings)[remedy.strength] == value
            assert intervention(str(found)) == found


def test_a_config_holds_all_the_settings():
    found = intervention("positive-only:negative=0.5")
    assert found == Intervention(
        "positive-only", (("negative", 0.5), ("low", 0.2), ("high", 0.2))
    )


def test_a_setting_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(
        MissingKey, match=r"of 'steer', of \['lowest', .*got 'lowst'.*mean 'lowest'"
    ):
        intervention("steer:lowst=0.5")


@pytest.mark.parametrize("value", ["much", "", "nan", "1;2"])
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises(
        InvalidValue, match=r"a number for 'mu' in .*; write clip-b:mu=1"
    ):
        intervention(f"clip-b:mu={value}")


@pytest.mark.parametrize("value", ["2.5", "inf", "-inf", "nan", "two"])
def test_a_micro_batch_is_a_whole_number(value):
    with pytest.raises(InvalidValue, match="a whole number for 'micro_batch'"):
        intervention(f"clip-b:micro_batch={value}")


def test_a_micro_batch_is_not_negative():
    with pytest.raises(InvalidValue, match=r"of at least 1 .* got -1; correct"):
        intervention("clip-b:micro_batch=-1")


@pytest.mark.parametrize(
    "text",
    [
        "high-entropy:rho=1.5",
        "clip-cov:rho=-1",
        "kl-cov:rho=inf",
        "clip-v:most=2",
        "stare:share=1.1",
        "steer:lowest=-0.5",
        "sapo:tau_negative=0",
        "entropy-bonus:alpha=inf",
        "cispo:low=-5",
        "bapo:upper_step=0",
        "vespo:lambda_negative=0",
        "entropy-advantage:kappa=0",
        "qae:level=1.5",
        "tis:cap=0",
    ],
)
def test_a_setting_out_of_its_range_is_refused(text):
    setting = text.partition(":")[2].partition("=")[0]
    with pytest.raises(InvalidValue, match=f"expected '{setting}' (from|above) 0"):
        intervention(text)
