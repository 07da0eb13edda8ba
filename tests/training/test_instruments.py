import numpy as np
import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.runs import read_update, update_path
from entrometer.training import Instrumented, Recorder, Trainer
from entrometer.training.instruments import _in_order
from tests.training.toy import (
    ACCUMULATION,
    GROUP,
    MICRO,
    ROUNDS,
    UPDATE,
    WINDOW,
    Witness,
    capitals,
    letters,
    make_trainer,
    quietly,
    train,
)


def test_a_window_is_put_back_in_the_order_of_its_prompts(uncut):
    """TRL shuffles responses over the micro-batches of a window."""
    rows = [micro.row.tolist() for micro in uncut.witness.micros]
    window = [
        list(range(first, first + MICRO)) for first in range(0, UPDATE * WINDOW, MICRO)
    ]
    assert rows == (window * ROUNDS + window)[: len(rows)]
    assert len(rows) == 5 * ACCUMULATION


def test_every_column_of_a_row_moves_with_it(uncut):
    """Rewards are judged again from the tokens; a group has one prompt and mean 0."""
    tokenizer = uncut.trainer.processing_class
    for micro in uncut.witness.micros:
        counted = micro.response_mask.bool()
        texts = tokenizer.batch_decode(
            [ids[mask] for ids, mask in zip(micro.response_ids, counted, strict=True)],
            skip_special_tokens=True,
        )
        judged = [letters(texts), [np.nan if x is None else x for x in capitals(texts)]]
        np.testing.assert_array_equal(micro.rewards.T, np.float32(judged))
        assert micro.group.tolist() == [i // GROUP for i in micro.row.tolist()]
        for rows in torch.arange(MICRO).split(GROUP):
            first = micro.prompt_ids[rows[0]]
            assert torch.equal(micro.prompt_ids[rows], first.expand(GROUP, -1))
            torch.testing.assert_close(
                micro.advantage[rows].mean(), torch.tensor(0.0), rtol=0, atol=1e-7
            )


def test_lists_and_scalars_of_a_window_are_kept():
    """Images come as lists, and a number that all rows share stays as it is."""
    batches = [
        {
            "row": torch.tensor(rows),
            "table": torch.tensor(rows)[:, None] * 10,
            "images": [f"image {i}" for i in rows],
            "total": torch.tensor(7),
            "absent": None,
        }
        for rows in ([5, 2], [4, 3])
    ]
    first, second = _in_order(batches)
    assert first["row"].tolist() == [2, 3]
    assert second["table"].tolist() == [[40], [50]]
    assert first["images"] == ["image 2", "image 3"]
    assert second["images"] == ["image 4", "image 5"]
    assert first["total"] == second["total"] == 7
    assert first["absent"] is None


def test_hooks_are_called_in_order_around_every_update(uncut):
    expected = [("attach", 0)]
    for step in range(1, 6):
        expected += [("micro_step", step)] * ACCUMULATION
        expected += [("update", step), ("updated", step)]
    assert uncut.witness.calls == expected


def test_what_hooks_return_is_logged_with_the_step(uncut):
    for name in ("witness/count", "witness/step"):
        assert [log[name] for log in uncut.logs] == [1, 2, 3, 4, 5]


def test_watching_changes_nothing_but_the_order(tmp_path):
    """With windows of one micro-batch there is no order to change."""
    from trl import GRPOTrainer

    class Watched(Instrumented, GRPOTrainer):
        pass

    def plain(instruments, **keywords):
        return GRPOTrainer(**keywords)

    settings = {
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 1,
        "save_strategy": "no",
    }
    # Each is made right before it trains, for that is when it seeds the generator.
    watched_logs = train(make_trainer(Watched, tmp_path, 2, [Witness()], **settings))
    plain_logs = train(make_trainer(plain, tmp_path, 2, **settings))
    # Sums of the same rows in another order.
    for watched, alone in zip(watched_logs, plain_logs, strict=True):
        assert watched.keys() - alone.keys() == {"witness/count", "witness/step"}
        for name in alone.keys() - {"step_time"}:
            assert watched[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-7), name
    assert all(log["grad_norm"] > 0 for log in plain_logs)


def test_an_own_trainer_takes_three_lines(tmp_path):
    """A user's subclass of GRPOTrainer, with advantages of its own for each token."""
    from trl import GRPOTrainer

    class Late(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            tokens = inputs["completion_mask"].cumsum(dim=1)
            advantages = inputs["advantages"][:, None] * tokens
            return super()._compute_loss(model, inputs | {"advantages": advantages})

    class Mine(Instrumented, Late):
        pass

    run = tmp_path / "mine"
    trainer = make_trainer(
        Mine, tmp_path / "trl", 2, [Recorder(run), Witness()], save_strategy="no"
    )
    logs = train(trainer)
    assert [log["witness/count"] for log in logs] == [1, 2]
    batch = read_update(update_path(run, 2))
    assert batch.count == UPDATE
    assert batch.settings.step == 2


def test_evaluation_is_not_shown_to_instruments(tmp_path):
    from datasets import Dataset

    witness = Witness()
    trainer = make_trainer(
        Trainer,
        tmp_path,
        1,
        [witness],
        keywords={"eval_dataset": Dataset.from_dict({"prompt": ["1+1=", "2="]})},
        per_device_eval_batch_size=2,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="no",
    )
    train(trainer)
    assert [name for name, _ in witness.calls].count("micro_step") == ACCUMULATION
    assert any("eval_reward" in log for log in trainer.state.log_history)


def test_a_kernel_that_hides_the_tables_is_refused(tmp_path, monkeypatch):
    from trl import GRPOTrainer

    class Mine(Instrumented, GRPOTrainer):
        pass

    def without_liger(self, *args, **kwargs):
        """Stand in for TRL's, which needs the kernels installed."""
        self.args = kwargs["args"]
        self.args.use_liger_kernel = True

    monkeypatch.setattr(GRPOTrainer, "__init__", without_liger)
    with pytest.raises(InvalidValue, match="use_liger_kernel=True"), quietly():
        make_trainer(Mine, tmp_path, 1)
