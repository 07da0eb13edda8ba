from dataclasses import dataclass

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.tasks import GSM8K, Task, register, registry, task, task_names


@pytest.fixture(autouse=True)
def names(monkeypatch):
    monkeypatch.setattr(registry, "_TASKS", dict(registry._TASKS))


def test_tasks_that_are_here():
    assert {"arithmetic", "gsm8k"} <= set(task_names())
    assert all(isinstance(task(name), Task) for name in task_names())
    assert all(task(name).name == name for name in task_names())


def test_settings_go_to_the_task():
    assert task("gsm8k", path="/somewhere") == GSM8K("/somewhere")


@pytest.mark.parametrize(
    ("name", "near"), [("gsm8", " Did you mean 'gsm8k'?"), ("chess", "")]
)
def test_a_name_that_is_not_there_is_told_with_the_nearest(name, near):
    with pytest.raises(MissingKey) as error:
        task(name)
    assert f"got {name!r}" in str(error.value)
    assert str(error.value).endswith(f"register it.{near}")


def test_a_setting_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(MissingKey, match=r"of \['path'\], got 'pth'.*mean 'path'"):
        task("gsm8k", pth="/somewhere")


def test_a_user_adds_a_task_by_a_decorator_or_a_call():
    @register("mine")
    @dataclass(frozen=True)
    class Mine(GSM8K):
        name = "mine"

    assert task("mine", path="x") == Mine("x")
    register("also-mine")(Mine)
    assert isinstance(task("also-mine"), Mine)
    register("any")(lambda **settings: Mine(**settings))
    assert task("any", path="y") == Mine("y")


def test_a_name_stands_for_one_definition():
    register("gsm8k")(GSM8K)
    with pytest.raises(InvalidValue, match=r"'gsm8k', which has .*gsm8k\.GSM8K"):
        register("gsm8k")(lambda: GSM8K())
