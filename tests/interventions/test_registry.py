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
    with pytest.raises(InvalidValue, match=r"'dr-grpo', which is .*plain\.dr_grpo"):
        register("dr-grpo")(high_entropy)
