import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.interventions import Intervention, intervention, intervention_names


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
    ],
)
def test_a_setting_out_of_its_range_is_refused(text):
    setting = text.partition(":")[2].partition("=")[0]
    with pytest.raises(InvalidValue, match=f"expected '{setting}' (from|above) 0"):
        intervention(text)
