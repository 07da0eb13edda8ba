"""What is recorded is what TRL computed with, and what the weights say."""

import hashlib

import numpy as np
import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy
from entrometer.runs import read_update, update_path
from entrometer.training import Instrumented, Recorder
from tests.training.toy import (
    ARGUMENTS,
    GROUP,
    UPDATE,
    WINDOW,
    Witness,
    make_trainer,
    train,
)

TEMPERATURE = ARGUMENTS["temperature"]


@pytest.fixture(scope="module")
def one_window(tmp_path_factory):
    """A trainer that is left with the log of exactly the window that is recorded."""
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    run = tmp_path_factory.mktemp("window")
    trainer = make_trainer(Mine, run, WINDOW, [Recorder()], save_strategy="no")
    train(trainer)
    return trainer, [read_update(update_path(run, n + 1)) for n in range(WINDOW)]


def test_rows_are_the_whole_window_in_order(one_window):
    _, batches = one_window
    row = np.concatenate([batch.row for batch in batches])
    group = np.concatenate([batch.group for batch in batches])
    np.testing.assert_array_equal(row, np.arange(WINDOW * UPDATE))
    np.testing.assert_array_equal(group, row // GROUP)


def test_rewards_and_advantages_are_trls_own(one_window):
    """TRL logs them before it shuffles, in the order of the prompts."""
    trainer, batches = one_window
    logged = trainer._logs
    for i, name in enumerate(("letters", "capitals")):
        recorded = np.concatenate([batch.rewards[:, i] for batch in batches])
        np.testing.assert_array_equal(recorded, np.float32(logged["rewards"][name]))
    advantage = [a[0] for batch in batches for a in batch.advantage]
    np.testing.assert_array_equal(advantage, np.float32(logged["advantages"]))
    for batch in batches:
        assert all((a == a[0]).all() for a in batch.advantage)
        assert batch.settings.rewards == ("letters", "capitals")
        # A response that one function did not judge has what the other gave.
        given = np.nan_to_num(batch.rewards)
        np.testing.assert_array_equal(batch.reward, given @ [1.0, 0.5])
    assert np.isnan(recorded).any()


def test_tokens_are_the_prompts_and_completions_that_trl_logged(one_window):
    trainer, batches = one_window
    decode = trainer.processing_class.decode
    for name, column in (("prompt", "prompt_tokens"), ("completion", None)):
        tokens = [t for b in batches for t in getattr(b, column or "response_tokens")]
        texts = [decode(t, skip_special_tokens=True) for t in tokens]
        assert texts == list(trainer._logs[name])


def test_a_prompt_is_named_by_its_tokens(one_window):
    _, batches = one_window
    for batch in batches:
        for name, tokens in zip(batch.prompt, batch.prompt_tokens, strict=True):
            digest = hashlib.sha256(tokens.astype("<i8").tobytes()).digest()
            assert name == int.from_bytes(digest[:8], "little") >> 1
    names = np.concatenate([batch.prompt for batch in batches])
    assert len(set(names)) == WINDOW * UPDATE // GROUP
    assert names.min() >= 0


def tables_of(policy, batch):
    """S and H of each row by whole logits, one row at a time and without padding."""
    for prompt, response in zip(
        batch.prompt_tokens, batch.response_tokens, strict=True
    ):
        tokens = torch.as_tensor(np.concatenate([prompt, response]))[None]
        with torch.no_grad():
            logits = policy.model(tokens).logits[0, len(prompt) - 1 : -1]
        log_p = (logits / TEMPERATURE).log_softmax(dim=-1)
        S = log_p.gather(1, torch.as_tensor(response)[:, None])[:, 0]
        yield S.numpy(), -(log_p.exp() * log_p).sum(dim=-1).numpy()


@pytest.mark.parametrize("step", [1, 2, 4, 5])
def test_tables_are_those_of_the_checkpoints(uncut, step):
    """S and H of the weights before the step, S_old of those that sampled."""
    batch = read_update(update_path(uncut.path, step))
    sampled_by = 0 if step < 5 else 4
    policies = [
        load_policy(uncut.path / f"checkpoint-{n}") for n in (step - 1, sampled_by)
    ]
    here, there = (list(tables_of(policy, batch)) for policy in policies)
    close = {"rtol": 1e-5, "atol": 1e-5}
    for i in range(batch.count):
        np.testing.assert_allclose(batch.S[i], here[i][0], **close)
        np.testing.assert_allclose(batch.H[i], here[i][1], **close)
        np.testing.assert_allclose(batch.S_old[i], there[i][0], **close)
    moved = max(np.abs(s - o).max() for s, o in zip(batch.S, batch.S_old, strict=True))
    # At steps 1 and 5 the policy is still the one that sampled.
    assert (moved > 1e-3) == (step in (2, 4))


def test_the_logged_loss_follows_from_the_rows(uncut):
    """Ratios, clipping and the divisor of Dr-GRPO, from the table alone."""
    for step, log in enumerate(uncut.logs, start=1):
        batch = read_update(update_path(uncut.path, step))
        total = 0.0
        for i in range(batch.count):
            r = np.exp(batch.S[i].astype(np.float64) - batch.S_old[i])
            A = batch.advantage[i]
            objective = np.minimum(r * A, np.clip(r, 0.8, 1.2) * A)
            total -= (objective * batch.counted[i]).sum()
        loss = total / (batch.count * batch.settings.max_tokens)
        assert log["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-7)
    assert max(abs(log["loss"]) for log in uncut.logs) > 1e-4


def test_a_masked_response_keeps_a_row(tmp_path):
    """Truncated responses can be left out of the loss; they are of a group still."""
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    trainer = make_trainer(
        Mine,
        tmp_path,
        1,
        [Recorder()],
        mask_truncated_completions=True,
        max_completion_length=2,
        save_strategy="no",
    )
    train(trainer)
    batch = read_update(update_path(tmp_path, 1))
    np.testing.assert_array_equal(batch.row, np.arange(UPDATE))
    assert any(not counted.any() for counted in batch.counted)


def test_what_is_recorded_of_steps_to_come_is_discarded(tmp_path):
    """They are of a training that was cut off, and will be taken again."""
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    run = tmp_path / "run"
    stale, other = update_path(run, 9), run / "updates" / "notes.txt"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of another life")
    other.write_text("mine")

    def trainer(recorder):
        instruments = [recorder, Witness()]
        return make_trainer(Mine, tmp_path / "trl", 1, instruments, save_strategy="no")

    with pytest.raises(InvalidValue, match="expected no recorded updates"):
        train(trainer(Recorder(str(run))))
    assert stale.exists()
    train(trainer(Recorder(str(run), overwrite=True)))
    assert not stale.exists()
    assert other.exists()
    assert update_path(run, 1).exists()
