import importlib.util
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch
from entrometer.interventions import (
    Intervention,
    TokenTables,
    dr_grpo,
    high_entropy,
    intervention,
    intervention_names,
    register,
    registry,
)
from tests.interventions.hand import hand, same, table


@pytest.fixture(autouse=True)
def names(monkeypatch):
    monkeypatch.setattr(registry, "_REMEDIES", dict(registry._REMEDIES))


ON_POLICY = [
    "adaptive-bonus",
    "clip-b",
    "clip-cov",
    "clip-v",
    "entrocraft",
    "entropy-bonus",
    "frontier",
    "high-entropy",
    "negative-reinforced",
    "positive-only",
    "stare",
    "steer",
]


def batch(ratios=True, **rest):
    """Six responses in two groups, of 4, 7, 0, 7, 2 and 5 tokens."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    S = -draw(6, 7).abs() - 0.05
    tables = TokenTables(
        S=S,
        S_old=S - 0.2 * draw(6, 7) * ratios,
        H=0.3 * draw(6, 7).abs(),
        A=table([[0.75], [-0.25], [-0.5], [0.4], [-0.6], [0.2]]).expand(6, 7).clone(),
        mask=torch.arange(7) < torch.tensor([4, 7, 0, 7, 2, 5])[:, None],
        group=torch.tensor([0, 0, 0, 1, 1, 1]),
        length_limit=9,
        concentration=draw(6, 7),
        influence=(draw(6, 7), draw(6, 7)),
        seed=11,
        progress=0.5,
    )
    return replace(tables, **rest)


def test_interventions_that_are_here():
    assert {"dr-grpo", "grpo", *ON_POLICY} <= set(intervention_names())


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


@pytest.mark.parametrize(
    ("name", "near"), [("clip-cof", " Did you mean 'clip-cov'?"), ("zzz", "")]
)
def test_a_name_that_is_not_there_is_told_with_the_nearest(name, near):
    with pytest.raises(MissingKey) as error:
        intervention(f"{name}:rho=1")
    assert f"got {name!r}" in str(error.value)
    assert str(error.value).endswith(f"register it.{near}")


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


def test_a_user_adds_one_by_one_function():
    @register("half", by_token=True, source="mine")
    def half(tables: TokenTables, *, weight: float = 0.5, power: int = 1):
        return weight**power * dr_grpo(tables)

    tables = batch()
    plain = intervention("dr-grpo").loss(tables)
    same(intervention("half").loss(tables), 0.5 * plain)
    same(intervention("half:weight=0.2,power=2").loss(tables), 0.04 * plain)
    assert "half" in intervention_names()
    assert str(intervention("half:power=2")) == "half:power=2"
    assert intervention("half").remedy.defaults == {"weight": 0.5, "power": 1}
    with pytest.raises(InvalidValue, match="a whole number for 'power'"):
        intervention("half:power=1.5")


def test_a_name_stands_for_one_definition():
    register("dr-grpo", by_token=True, on_policy=False)(dr_grpo)
    with pytest.raises(InvalidValue, match=r"'dr-grpo', which is .*plain\.dr_grpo"):
        register("dr-grpo")(high_entropy)


@pytest.mark.parametrize("default", [None, "0.5", (1.0,)])
def test_a_setting_whose_default_is_no_number_is_refused(default):
    def mine(tables: TokenTables, *, weight=default):
        return weight * dr_grpo(tables)

    with pytest.raises(InvalidValue, match=r"each setting of 'mine', .* \['weight'\]"):
        register("mine")(mine)
    assert "mine" not in intervention_names()


def test_a_setting_without_a_default_is_refused():
    def mine(tables: TokenTables, *, weight):
        return weight * dr_grpo(tables)

    with pytest.raises(InvalidValue, match=r"each setting of 'mine', .* \['weight'\]"):
        register("mine")(mine)


@pytest.mark.parametrize(
    ("strength", "strengths"),
    [("wait", (0.5,)), ("weight", (0.1, 0.2)), ("weight", ())],
)
def test_the_strength_is_a_setting_and_its_default_one_of_the_values(
    strength, strengths
):
    def mine(tables: TokenTables, *, weight: float = 0.5):
        return weight * dr_grpo(tables)

    with pytest.raises(InvalidValue, match="strength of 'mine' to be one of its"):
        register("mine", strength=strength, strengths=strengths)(mine)


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


@pytest.mark.parametrize("name", ["dr-grpo", "grpo", *ON_POLICY])
def test_lines_for_other_trainers_take_its_settings(name):
    remedy = intervention(name).remedy
    for line in (remedy.trl, remedy.verl):
        if line is not None:
            assert not re.search("[{}]", line.format(**remedy.defaults))
            assert len(line.format(**remedy.defaults)) > len(remedy.source) > 0


def test_lines_for_trl_name_fields_of_its_config():
    found = importlib.util.find_spec("trl")
    if found is None:
        pytest.skip("trl is not installed")
    # Read, not imported: importing it takes seconds.
    text = Path(found.submodule_search_locations[0], "trainer/grpo_config.py")
    fields = set(re.findall(r"^    (\w+): ", text.read_text(), flags=re.MULTILINE))
    for name in ("dr-grpo", "grpo", *ON_POLICY):
        line = intervention(name).remedy.trl
        assert line is None or set(re.findall(r"(\w+)=", line)) <= fields


def test_a_config_holds_all_the_settings():
    found = intervention("positive-only:negative=0.5")
    assert found == Intervention(
        "positive-only", (("negative", 0.5), ("low", 0.2), ("high", 0.2))
    )


def test_coefficients_are_derivatives_of_the_loss():
    # By hand at one token: L = -(rA)/5 - 0.3·H, r = 1.1 and A = 0.5.
    found = intervention("entropy-bonus:alpha=0.3").coefficients(
        hand(p=[[0.5]], r=1.1, A=[[0.5]])
    )
    same(found.alpha, table([[0.11]]))
    same(found.gamma, table([[0.3]]))


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
    ],
)
def test_a_setting_out_of_its_range_is_refused(text):
    setting = text.partition(":")[2].partition("=")[0]
    with pytest.raises(InvalidValue, match=f"expected '{setting}' (from|above) 0"):
        intervention(text)


@pytest.mark.parametrize("name", ["", "a:b", "a,b", "a=b", "a b"])
def test_a_name_that_could_not_be_read_is_refused(name):
    with pytest.raises(InvalidValue, match="without colon"):
        register(name)(lambda tables: tables.S)


def test_a_loss_that_is_no_table_is_refused():
    register("toy-summed")(summed)
    with pytest.raises(ShapeMismatch, match="a loss a token"):
        intervention("toy-summed").loss(batch())


def summed(tables):
    return tables.S.sum()


def edited(tables):
    return tables.H


# As where a cell of a notebook was edited and run again.
edited.__qualname__ = summed.__qualname__


def test_the_code_of_a_user_is_part_of_what_it_is():
    assert not any(
        intervention(name).remedy.code
        for name in intervention_names()
        if intervention(name).remedy.function.__module__.startswith("entrometer.")
    )
    register("toy-summed")(summed)
    before = intervention("toy-summed").remedy.code
    register("toy-summed")(edited)
    assert before
    assert intervention("toy-summed").remedy.code not in ("", before)
