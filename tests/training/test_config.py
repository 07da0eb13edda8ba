import json
import subprocess
import sys
from dataclasses import replace

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.training import prolong
from entrometer.training.config import (
    AdapterConfig,
    ImitationConfig,
    TrainConfig,
    read_config,
    save_config,
)

# Not one setting is at its default.
ODD = TrainConfig(
    policy="smollm2",
    task="gsm8k",
    level="hard",
    problems=6,
    adapter=AdapterConfig(rank=2, alpha=5, modules=("q_proj",)),
    imitation=ImitationConfig(steps=0, batch=3, learning_rate=1e-3, warmup=0),
    steps=7,
    save_every=2,
    prompts=3,
    responses=4,
    micro_batch=4,
    window=2,
    iterations=3,
    learning_rate=1 / 3,
    betas=(0.8, 0.95),
    weight_decay=0.1,
    max_grad_norm=0.0,
    temperature=0.7,
    max_tokens=9,
    format_weight=0.25,
    intervention="clip-cov:rho=0.002",
    predict_every=3,
    predict_prompts=5,
    report_to="tensorboard",
    seed=11,
)

COUNTS = ("problems", "steps", "save_every", "prompts", "micro_batch", "window")
SIZES = ("learning_rate", "temperature")


@pytest.mark.parametrize("config", [TrainConfig(), ODD, TrainConfig(adapter=None)])
def test_what_was_saved_is_read_back(tmp_path, config):
    save_config(config, tmp_path / "run")
    assert read_config(tmp_path / "run") == config


def test_the_odd_config_has_no_default_left():
    default = TrainConfig()
    for name in TrainConfig.__dataclass_fields__:
        assert getattr(ODD, name) != getattr(default, name), name


def edited(run, change):
    """A config of an earlier version or by hand, which nothing seals."""
    save_config(ODD, run)
    (run / "manifest.json").unlink()
    values = json.loads((run / "config.json").read_text())
    change(values)
    (run / "config.json").write_text(json.dumps(values))


def test_a_misspelt_setting_is_refused_with_the_nearest_name(tmp_path):
    edited(tmp_path, lambda values: values.update(temprature=1.0))
    with pytest.raises(InvalidValue, match=r"'temprature'.*TrainConfig.*temperature"):
        read_config(tmp_path)


def test_a_misspelt_setting_inside_another_is_refused_too(tmp_path):
    edited(tmp_path, lambda values: values["adapter"].update(rnak=4))
    with pytest.raises(InvalidValue, match=r"'rnak'.*AdapterConfig.*rank"):
        read_config(tmp_path)


def test_an_absent_config_says_that_this_is_no_run(tmp_path):
    with pytest.raises(InvalidValue, match=r"config\.json: no such file"):
        read_config(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"adapter": 3}'])
def test_a_file_of_something_else_is_refused_by_name(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidValue, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in COUNTS for value in (0, -1)),
        *((name, value) for name in SIZES for value in (0.0, -1.0, float("nan"))),
    ],
)
def test_what_cannot_be_trained_is_refused(name, value):
    with pytest.raises(InvalidValue, match=name):
        TrainConfig(**{name: value})


def test_a_group_of_one_has_nothing_to_be_compared_with():
    with pytest.raises(InvalidValue, match="responses=1"):
        TrainConfig(responses=1)


def test_a_round_of_sampling_needs_as_many_different_problems():
    settings = {"prompts": 4, "window": 3}
    assert TrainConfig(problems=12, **settings).problems == 12
    with pytest.raises(InvalidValue, match=r"4 x 3 = 12 problems.*got problems=11"):
        TrainConfig(problems=11, **settings)


@pytest.mark.parametrize("setting", [{"steps": -1}, {"batch": 0}])
def test_imitation_that_cannot_be_is_refused(setting):
    with pytest.raises(InvalidValue, match="imitation"):
        ImitationConfig(**setting)


def test_a_value_of_another_type_is_refused_by_file(tmp_path):
    edited(tmp_path, lambda values: values.update(steps="many"))
    with pytest.raises(InvalidValue, match=r"config\.json.*TrainConfig.*type"):
        read_config(tmp_path)


def test_a_setting_that_is_left_out_has_its_default(tmp_path):
    (tmp_path / "config.json").write_text('{"steps": 3}')
    assert read_config(tmp_path) == TrainConfig(steps=3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clip-cvo", r"expected an intervention of .*got 'clip-cvo'.*'clip-cov'\?"),
        ("clip-cov:roh=1", r"expected settings of 'clip-cov'.*got 'roh'.*'rho'\?"),
        ("clip-cov:rho=much", r"expected a number for 'rho'.*got 'much'"),
        ("", r"expected an intervention of .*got ''"),
    ],
)
def test_an_intervention_that_is_not_one_is_refused(tmp_path, text, said):
    with pytest.raises((MissingKey, InvalidValue), match=said):
        TrainConfig(intervention=text)
    edited(tmp_path, lambda values: values.update(intervention=text))
    with pytest.raises((MissingKey, InvalidValue), match=said):
        read_config(tmp_path)


def test_a_config_of_before_there_were_interventions_is_of_the_plain_loss(tmp_path):
    edited(tmp_path, lambda values: values.pop("intervention"))
    assert read_config(tmp_path).intervention == "dr-grpo"


def test_reading_a_config_needs_no_torch():
    code = (
        "import sys; from entrometer.training import TrainConfig; TrainConfig(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_schedule_that_is_made_longer_is_warned_of(tmp_path, recwarn):
    save_config(ODD, tmp_path)
    prolong(tmp_path, 1)
    assert not [w for w in recwarn if "schedule" in str(w.message)]
    save_config(replace(ODD, intervention="entrocraft"), tmp_path)
    with pytest.warns(UserWarning, match="entrocraft has a schedule"):
        assert prolong(tmp_path, 1).steps == ODD.steps + 1
