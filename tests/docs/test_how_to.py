"""What a guide tells people to write works as it stands there."""

import re
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import torch

from entrometer.cli import main
from entrometer.experiments import experiment
from entrometer.interventions import intervention
from entrometer.runs.rows import table_classes
from entrometer.tasks import Split, Task, registry, task
from tests.interventions.on_policy import batch

GUIDES = Path(__file__).parents[2] / "docs/how-to"


def written(guide: str) -> str:
    """The first block of Python in a guide."""
    found = re.search(r"```python\n(.*?)```", (GUIDES / guide).read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_intervention_of_the_guide_halves_rare_tokens():
    exec(written("intervention.md"), {})
    S = 3 * batch(ratios=False).S
    tables = batch(S=S, S_old=S)
    plain, half = (
        intervention(name).coefficients(tables)[0] for name in ("dr-grpo", "half")
    )
    rare = tables.p < 0.1
    assert rare.any()
    torch.testing.assert_close(half, torch.where(rare, 0.5 * plain, plain))


def test_the_task_of_the_guide_is_a_task(monkeypatch):
    monkeypatch.setattr(registry, "_TASKS", dict(registry._TASKS))
    exec(written("task.md"), {"__name__": "shout"})
    shout = task("shout")
    assert isinstance(shout, Task)
    problem = shout.problems(Split.TRAIN, 1)[0]
    right = shout.demonstration(problem, Random(0))
    assert shout.score(problem, right).answer == 1.0
    assert shout.score(problem, right.lower()).answer == 0.0
    assert shout.prompt(problem).startswith("Shout")


def test_the_experiment_of_the_guide_has_a_verb(monkeypatch, capsys):
    # A built-in package registers once, when it is imported. One imported below would
    # register in the copy alone, so all are imported before it is made.
    registered = {n: experiment.experiment(n) for n in experiment.experiment_names()}
    monkeypatch.setattr(experiment, "_REGISTERED", registered)
    # Dataclasses look up the types of their fields in the module by name.
    guide = ModuleType("sharpness")
    monkeypatch.setitem(sys.modules, "sharpness", guide)
    exec(written("experiment.md"), vars(guide))
    assert experiment.experiment("sharpness") is guide.SHARPNESS
    assert list(table_classes(guide.SharpnessTables).values()) == [guide.Sharpness]
    assert guide.SHARPNESS.steps().plan is guide.plan
    main(["--help"])
    printed = capsys.readouterr().out
    assert re.search(r"sharpness +Measure the entropy of checkpoints\.", printed)


def test_the_tool_of_the_guide_replies_to_a_call_alone():
    blocks = re.findall(
        r"```python\n(.*?)```", (GUIDES / "agents.md").read_text(), re.DOTALL
    )
    agent: dict[str, Any] = {}
    exec(next(block for block in blocks if "def reply" in block), agent)
    reply = agent["reply"]
    call = '<tool_call>{"query": "tides"}</tool_call>'
    assert "nothing known about tides<" in reply(f"Let me look. {call}")
    assert reply("The answer is 4.") is None
    assert reply("<tool_call>") is None
    for bad in ("", "1", "{}", "[" * 10**5, "null", '{"query"'):
        assert "error: not a call" in reply(f"<tool_call>{bad}</tool_call>")
