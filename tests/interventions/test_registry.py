import importlib.util
import re
from pathlib import Path

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.interventions import (
    TokenTables,
    dr_grpo,
    intervention,
    intervention_names,
    register,
)
from entrometer.interventions.high_entropy import high_entropy
from tests.interventions.hand import same
from tests.interventions.on_policy import ON_POLICY, batch


def test_interventions_that_are_here():
    assert {"dr-grpo", "grpo", *ON_POLICY} <= set(intervention_names())


@pytest.mark.parametrize(
    ("name", "near"), [("clip-cof", " Did you mean 'clip-cov'?"), ("zzz", "")]
)
def test_a_name_that_is_not_there_is_told_with_the_nearest(name, near):
    with pytest.raises(MissingKey) as error:
        intervention(f"{name}:rho=1")
    assert f"got {name!r}" in str(error.value)
    assert str(error.value).endswith(f"register it.{near}")


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
    with pytest.raises(InvalidValue, match=r"which has been .*plain\.dr_grpo"):
        register("dr-grpo")(high_entropy)


@pytest.mark.parametrize("name", ["", "a:b", "a,b", "a=b", "a b"])
def test_a_name_that_could_not_be_read_is_refused(name):
    with pytest.raises(InvalidValue, match="without `:,=`"):
        register(name)(lambda tables: tables.S)


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
