"""A tool's output in a training of TRL: recorded as context, and trained on as such."""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.requests.recorded_responses import scored_responses
from entrometer.experiments.update_batch import recorded_batch
from entrometer.policy import load_policy, tiny_policy
from entrometer.runs import checkpoints, read_update, update_path, write_update
from entrometer.tasks import Problem, register
from entrometer.training import ImitationConfig, Instrumented, Recorder
from entrometer.training import run as room
from entrometer.training.imitation import _demonstrations
from entrometer.training.probes import PredictedChange
from entrometer.training.watch_trl import watch
from tests.training.test_recorder import tables_of
from tests.training.toy import (
    ARGUMENTS,
    CONFIG,
    UPDATE,
    Letters,
    make_trainer,
    quietly,
    train,
)

EOS = 2
# The policy's words, a tool's, the policy's; and one without a tool.
PARTS = [([40, 41], [17, 18, 19], [50, EOS]), ([60, 61, 62, EOS], [], [])]


def scripted(prompts, trainer):
    """Responses as a `rollout_func` gives them, whatever the prompt."""
    chosen = [PARTS[i % 2] for i in range(len(prompts))]
    return {
        "prompt_ids": [trainer.processing_class(p)["input_ids"] for p in prompts],
        "completion_ids": [[*a, *tool, *b] for a, tool, b in chosen],
        "logprobs": None,
        "env_mask": [
            [1] * len(a) + [0] * len(tool) + [1] * len(b) for a, tool, b in chosen
        ],
    }


def recorded(run, **settings):
    """A training of two updates; its second batch, and the policy before it."""
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    trainer = make_trainer(
        Mine,
        run,
        2,
        [Recorder()],
        keywords={"rollout_func": scripted},
        max_completion_length=8,
        **settings,
    )
    train(trainer)
    policy = load_policy(run / "checkpoint-1", base="tiny")
    return read_update(update_path(run, 2)), policy


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("runs") / "tool")


def test_what_the_tool_wrote_has_no_weight_and_nothing_measured(both):
    batch, _ = both
    masks = [[True, True, False, False, False, True, True], [True] * 4] * (UPDATE // 2)
    assert [m.tolist() for m in batch.written] == masks
    assert [m.tolist() for m in batch.counted] == masks
    for i, mask in enumerate(batch.written):
        for name in ("alpha", "gamma", "advantage"):
            assert not getattr(batch, name)[i][~mask].any()
        for name in ("S", "S_old", "H"):
            column = getattr(batch, name)[i]
            np.testing.assert_array_equal(np.isnan(column), ~mask)
    assert any(alpha.any() for alpha in batch.alpha)


def test_the_policy_s_tokens_have_the_numbers_of_whole_logits(both):
    """With the tool's tokens before them."""
    batch, policy = both
    for i, (S, H) in enumerate(tables_of(policy, batch)):
        mask = batch.written[i]
        np.testing.assert_allclose(batch.S[i][mask], S[mask], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(batch.H[i][mask], H[mask], rtol=1e-5, atol=1e-5)


def test_columns_of_a_batch_are_the_policy_s_tokens(both):
    batch, _ = both
    formed = recorded_batch(batch)
    assert formed.rollouts.length.tolist() == [4, 4] * (UPDATE // 2)
    assert formed.alpha.size == formed.counted.sum() == 4 * UPDATE
    assert np.isfinite(formed.alpha).all()
    np.testing.assert_array_equal(
        formed.alpha, np.concatenate(batch.of_policy("alpha"))
    )


def test_no_number_of_a_tool_s_token_is_read(both):
    """Whatever another recorder writes there."""
    batch, _ = both
    noise = np.random.default_rng(0)
    columns = {
        name: tuple(
            np.where(m, x, noise.normal(size=x.size).astype(np.float32))
            for x, m in zip(getattr(batch, name), batch.written, strict=True)
        )
        for name in ("S", "S_old", "H", "advantage", "alpha", "gamma")
    }
    for without in ({}, {"alpha": None, "gamma": None}):
        found, expected = (
            recorded_batch(replace(b, **without))
            for b in (replace(batch, **columns), batch)
        )
        for name in ("advantage", "log_ratio", "counted", "alpha", "gamma"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_responses_with_a_tool_s_output_are_scored_ones(both, tmp_path):
    """Their log-probs are known: those of the tokens that the policy wrote."""
    batch, _ = both
    problem = {tuple(t.tolist()): i for i, t in enumerate(batch.prompt_tokens)}
    path = tmp_path / "step-00000002.parquet"
    write_update(path, replace(batch, rewards=np.nan_to_num(batch.rewards)))
    found = scored_responses([path], problem, temperature=0.7, most=99)
    assert [f.row for f in found] == list(range(UPDATE))


def test_a_response_left_out_of_the_loss_is_still_the_policy_s(tmp_path):
    """TRL masks a truncated response with its tool's output: two masks become one."""
    cut = [([40, 41], [17, 18, 19], [50, 51]), PARTS[1]]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.training.test_tools.PARTS", cut)
        batch, _ = recorded(tmp_path, mask_truncated_completions=True)
    assert [c.any() for c in batch.counted] == [False, True] * (UPDATE // 2)
    assert batch.written is None


@register("toy-tool")
@dataclass(frozen=True)
class Tooled(Letters):
    """After an `a` the tool says `=7;`."""

    name: str = "toy-tool"
    call_end: str = "a"

    def reply(self, problem: Problem, text: str) -> str | None:
        return f"={problem.index};" if text.endswith("a") else None

    def demonstration(self, problem: Problem, random: Random) -> str:
        return f"{random.choice('bc')}a={problem.index};{random.choice('BC')}"


def test_imitation_learns_what_the_policy_is_to_write():
    problem = Problem(3, "3+train", "3")
    policy = load_policy("tiny")
    config = replace(CONFIG, imitation=ImitationConfig(steps=2, batch=2))
    rows = _demonstrations(Tooled(), [problem], config, policy.tokenizer)
    decode = policy.tokenizer.decode
    for ids, mask in zip(rows["input_ids"], rows["completion_mask"], strict=True):
        text = decode(ids)
        assert text.startswith("3+train=")
        assert "a=3;" in text
        learned = decode([t for t, m in zip(ids, mask, strict=True) if m])
        assert learned == text.removeprefix("3+train=").replace("=3;", "")
        assert ids[-1] == EOS


TRAINED = replace(
    CONFIG,
    task="toy-tool",
    imitation=ImitationConfig(steps=40, batch=8, learning_rate=1e-2, warmup=1),
    max_tokens=12,
    predict_every=1,
    predict_prompts=4,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "trained"
    with quietly():
        room.train(TRAINED, run)
    return run


def test_a_training_samples_with_the_tool_s_replies(trained):
    policy = load_policy(trained / "imitation", base="tiny")
    for step in (1, 2):
        batch = read_update(update_path(trained, step))
        assert batch.written is not None
        for i, mask in enumerate(batch.written):
            text = policy.tokenizer.decode(batch.response_tokens[i])
            prompt = policy.tokenizer.decode(batch.prompt_tokens[i])
            reply = f"={prompt.partition('+')[0]};"
            whole = policy.tokenizer.decode(batch.response_tokens[i][~mask])
            assert whole == reply * (len(whole) // len(reply))
            assert text.count(reply) >= len(whole) // len(reply)
        assert sum((~mask).any() for mask in batch.written) > batch.count / 2
        masked = [
            np.isnan(S[~m]).all() for S, m in zip(batch.S, batch.written, strict=True)
        ]
        assert all(masked)


def test_a_training_with_a_tool_is_resumed_to_the_bit(trained, tmp_path):
    """Responses are drawn with the trainer's own generator, which is stored."""
    with quietly():
        room.train(replace(TRAINED, steps=1), tmp_path / "run")
        room.train(TRAINED, tmp_path / "run")
    assert [n for n, _ in checkpoints(tmp_path / "run")][-1] == 2
    for step in (1, 2):
        paths = (update_path(run, step) for run in (trained, tmp_path / "run"))
        first, second = (path.read_bytes() for path in paths)
        assert first == second
    weights = "checkpoint-2/adapter_model.safetensors"
    first, second = (
        (run / weights).read_bytes() for run in (trained, tmp_path / "run")
    )
    assert first == second


def test_a_prediction_without_the_tool_is_refused(tmp_path):
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    predicted = PredictedChange(every=1, prompts=[[1], [1, 20]])
    trainer = make_trainer(
        Mine, tmp_path, 1, [predicted], keywords={"rollout_func": scripted}
    )
    with pytest.raises(InvalidValue, match="got one with rollout_func"):
        train(trainer)


def test_a_tool_in_shards_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "sharded", lambda: True)
    with pytest.raises(InvalidValue, match="a task without a tool for a sharded"):
        room.train(replace(TRAINED, predict_every=0), tmp_path / "run")


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: A number.
        b: Another.
    """
    return a + b


def by_number(completions, **_):
    return [float(i) for i in range(len(completions))]


def test_a_stock_trainer_with_tools_is_watched(tmp_path, caplog):
    """TRL's own loop of calls and replies; only what the policy says is given."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    policy = tiny_policy(lora_rank=2, lora_std=0.05)
    policy.tokenizer.chat_template = qwen3_chat_template
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>'
    turns = {True: [*policy.tokenizer(call)["input_ids"], EOS], False: [50, 51, EOS]}

    class Scripted(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            first = [EOS not in ids for ids in prompt_ids]
            return [list(turns[is_first]) for is_first in first], None

    with quietly():
        chat = [[{"role": "user", "content": p}] for p in ("3+4", "4+3")]
        settings = ARGUMENTS | {"max_completion_length": 400, "max_steps": 1}
        trainer = Scripted(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=GRPOConfig(
                **settings | {"reward_weights": None, "output_dir": str(tmp_path)}
            ),
            train_dataset=Dataset.from_dict({"prompt": chat * 8}),
            reward_funcs=[by_number],
            tools=[add],
        )
        watch(trainer, predict_every=1, prompts=2)
        trainer.train()
    assert "PredictedChange is not logged" in caplog.text
    assert "got one with tools" in caplog.text
    batch = read_update(update_path(tmp_path, 1))
    decode = policy.tokenizer.decode
    for i, mask in enumerate(batch.written):
        own = batch.response_tokens[i][mask].tolist()
        assert own == [*turns[True], *turns[False]]
        assert "<tool_response>\n7\n</tool_response>" in decode(
            batch.response_tokens[i][~mask]
        )
        assert not batch.alpha[i][~mask].any()
        np.testing.assert_array_equal(np.isnan(batch.S[i]), ~mask)
    assert recorded_batch(batch).rollouts.length.tolist() == [len(own)] * batch.count
