"""A user's own prompts: recorded and held out, or in a file, and a reward function."""

import json

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.runs import UpdateBatch, UpdateSettings, update_path, write_update
from entrometer.tasks import task, tool_of
from entrometer.tasks.registry import Split


def update(directory, step, prompts):
    """Write an update with one response of two tokens per prompt."""
    count = len(prompts)
    per_token = tuple(np.zeros(2, np.float32) for _ in prompts)
    batch = UpdateBatch(
        row=np.arange(count),
        group=np.arange(count),
        prompt=np.array([hash(p) % 2**31 for p in prompts]),
        prompt_tokens=tuple(np.array(p) for p in prompts),
        response_tokens=tuple(np.array([1, 2]) for _ in prompts),
        counted=tuple(np.ones(2, bool) for _ in prompts),
        rewards=np.ones((count, 1), np.float32),
        advantage=per_token,
        S=per_token,
        S_old=per_token,
        H=per_token,
        settings=UpdateSettings(
            step=step,
            temperature=1.0,
            max_tokens=4,
            rewards=("r",),
            reward_weights=(1.0,),
        ),
    )
    path = update_path(directory, step)
    path.parent.mkdir(exist_ok=True)
    write_update(path, batch)


def tokens(own):
    return [p.tokens for p in own.problems(Split.TRAIN)]


def test_recorded_prompts_are_those_of_other_updates_nearest_first(tmp_path):
    update(tmp_path, 1, [(1,), (2,)])
    update(tmp_path, 2, [(3,), (9,)])
    update(tmp_path, 3, [(9,), (8,)])
    update(tmp_path, 4, [(4,), (8,)])
    own = task("own", updates=str(tmp_path / "updates"), exclude="3")
    assert tokens(own) == [(3,), (1,), (2,), (4,)]


def test_without_another_prompt_the_remedy_is_named(tmp_path):
    update(tmp_path, 3, [(9,), (8,)])
    own = task("own", updates=str(tmp_path / "updates"), exclude="3")
    with pytest.raises(InvalidValue, match="train more steps, or give --prompts-file"):
        own.problems(Split.TRAIN)


def test_a_file_has_texts_or_chats_and_columns_for_the_reward(tmp_path, monkeypatch):
    rows = [
        {"prompt": "2+2=", "answer": 4},
        {"prompt": [{"role": "user", "content": "3+3?"}], "answer": 6},
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (tmp_path / "my_rewards.py").write_text(
        "def seen(prompts, completions, answer, **_):\n"
        "    chat = lambda c: c if isinstance(c, str) else c[0]['content']\n"
        "    pairs = zip(completions, answer)\n"
        "    return [float(chat(c) == str(a)) for c, a in pairs]\n"
        "def short(**_):\n"
        "    return [1.0]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = task("own", prompts_file=str(path), reward="my_rewards:seen")
    problems = own.problems(Split.TRAIN)
    assert own.prompt(problems[0]) == "2+2="
    rewards = own.rewards(problems, ["2+2=", ""], ["4", "7"])
    assert rewards == [1.0, 0.0]
    with pytest.raises(InvalidValue, match="2 rewards from my_rewards:short"):
        task("own", prompts_file=str(path), reward="my_rewards:short").rewards(
            problems, ["", ""], ["", ""]
        )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"prompt": "a"}\n{"question": "b"}', ":2: expected a `prompt`"),
        ('{"prompt": "a"', ":1: expected a JSON object"),
        # Lines are those of the file, blank ones too.
        ('{"prompt": "a"}\n\n{"question": "b"}', ":3: expected a `prompt`"),
        (b'{"prompt": "\xff"}', ":1: expected a JSON object"),
        ("\n", "expected at least one prompt"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path, content, named):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidValue, match=named):
        task("own", prompts_file=str(path)).problems(Split.TRAIN)


def test_a_line_ends_at_a_newline_alone(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a\u2028b\x85c"}\n', encoding="utf-8")
    own = task("own", prompts_file=str(path))
    (problem,) = own.problems(Split.TRAIN)
    assert own.prompt(problem) == "a\u2028b\x85c"


def test_what_a_reward_raises_is_said_with_what_it_was_given(tmp_path, monkeypatch):
    update(tmp_path, 1, [(1,), (2,)])
    (tmp_path / "needs_answer.py").write_text("def f(completions, answer, **_): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    updates = str(tmp_path / "updates")
    own = task("own", updates=updates, reward="needs_answer:f")
    with pytest.raises(InvalidValue, match="'answer'; it is called with prompts, comp"):
        own.rewards(own.problems(Split.TRAIN), ["a", "b"], ["", ""])
    # A recorded prompt is token ids, which are no text.
    with pytest.raises(InvalidValue, match="call `rewards` with its text"):
        own.score(own.problems(Split.TRAIN)[0], "")


@pytest.mark.parametrize("text", ["no_colon", "no.such.module:f", "json:no_function"])
def test_a_reward_that_is_not_there_is_named(text, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}')
    own = task("own", prompts_file=str(path), reward=text)
    with pytest.raises(InvalidValue, match=text.split(":")[0]):
        own.rewards(own.problems(Split.TRAIN), ["a"], ["b"])


def test_a_tool_replies_after_a_turn_or_a_text_of_its_choice(tmp_path, monkeypatch):
    update(tmp_path, 1, [(1,), (2,)])
    (tmp_path / "my_tools.py").write_text(
        "def turn(text):\n"
        "    return f'{len(text)} characters' if text.endswith('?') else None\n"
        "def called(text):\n"
        "    return ''\n"
        "called.call_end = '</call>'\n"
        "def broken(text):\n"
        "    return 1 / 0\n"
        "def number(text):\n"
        "    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    updates = str(tmp_path / "updates")
    problems = task("own", updates=updates).problems(Split.TRAIN)
    assert tool_of(task("own", updates=updates), problems) is None
    tool = tool_of(task("own", updates=updates, tool="my_tools:turn"), problems)
    assert (tool.call_end, tool.reply(0, "a?"), tool.reply(1, "a")) == (
        "",
        "2 characters",
        None,
    )
    ended = task("own", updates=updates, tool="my_tools:called")
    assert (ended.call_end, ended.reply(problems[0], "a")) == ("</call>", "")
    for name, said in (("broken", "got ZeroDivisionError"), ("number", "got int")):
        with pytest.raises(InvalidValue, match=f"{name}.*{said}|{said}"):
            task("own", updates=updates, tool=f"my_tools:{name}").reply(problems[0], "")
    with pytest.raises(InvalidValue, match="expected a tool as module:function"):
        task("own", updates=updates, tool="my_tools").reply(problems[0], "")
