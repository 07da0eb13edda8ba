import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from entrometer.tokens import token_entropy
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.probes import Entropy


def logits_of(model, micro):
    """Logits of the response tokens, with the inputs that the trainer gives."""
    ids = torch.cat([micro.prompt_ids, micro.response_ids], dim=1)
    mask = torch.cat([micro.prompt_mask, micro.response_mask], dim=1)
    T = micro.response_ids.shape[1]
    return model(input_ids=ids, attention_mask=mask).logits[:, -T - 1 : -1]


def test_what_trl_calls_entropy_is_of_the_whole_vocabulary_at_its_temperature(
    make_trainer, train, witness
):
    trainer = make_trainer(witness, temperature=0.7, learning_rate=0.0)
    train(trainer)
    for micro in witness.micros:
        mask = micro.response_mask.bool()
        with torch.no_grad():
            H = token_entropy(logits_of(trainer.model, micro), temperature=0.7)
        torch.testing.assert_close(micro.H[mask], H[mask], rtol=2e-6, atol=0)


def test_what_trl_calls_entropy_has_the_gradient_of_the_entropy(
    make_trainer, train, witness
):
    trainer = make_trainer(witness, temperature=0.7, learning_rate=0.0)
    train(trainer)
    micro = witness.micros[0]
    mask = micro.response_mask
    _, H, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model,
        torch.cat([micro.prompt_ids, micro.response_ids], dim=1),
        torch.cat([micro.prompt_mask, mask], dim=1),
        mask.shape[1],
        compute_entropy=True,
    )
    expected = token_entropy(logits_of(trainer.model, micro), temperature=0.7)
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    got, want = (
        torch.cat([g.flatten() for g in torch.autograd.grad((x * mask).sum(), trained)])
        for x in (H, expected)
    )
    assert want.norm() > 0
    assert (got - want).norm() < 1e-5 * want.norm()


def test_it_is_one_ratio_over_all_micro_batches_with_its_error_clustered_by_group(
    make_trainer, train, witness
):
    trainer = make_trainer(witness, Entropy(), max_completion_length=60)
    (log,) = train(trainer)
    group = torch.cat([m.group for m in witness.micros]).tolist()
    H = torch.cat([(m.H * m.response_mask).double().sum(1) for m in witness.micros])
    T = torch.cat([m.response_mask.double().sum(1) for m in witness.micros])
    assert sorted(set(group)) == [0, 1, 2, 3]
    assert T.unique().numel() > 2
    h = (H.sum() / T.sum()).item()
    assert log["entropy/token"] == pytest.approx(h, rel=1e-6)
    assert log["entropy/sequence"] == pytest.approx(H.mean().item(), rel=1e-6)
    # The trainer's own figure is the mean of the ratios of micro-batches.
    assert abs(log["entropy"] - h) > 1e-4 * h
    residual = np.bincount(group, (H - h * T) / T.sum())
    assert log["entropy/token_se"] == pytest.approx(
        math.sqrt(4 / 3 * (residual**2).sum()), rel=1e-5
    )


def micro_batch(H, mask, group):
    H, mask = torch.tensor(H), torch.tensor(mask)
    ids = torch.zeros_like(mask)
    column = torch.zeros(len(H), 1)
    return MicroBatch(
        row=torch.arange(len(H)),
        group=torch.tensor(group),
        prompt_ids=ids,
        prompt_mask=ids,
        response_ids=ids,
        response_mask=mask,
        rewards=column,
        advantage=column,
        S=H,
        S_old=H,
        H=H,
        alpha=H,
        gamma=H,
    )


ALONE = SimpleNamespace(accelerator=SimpleNamespace(gather=lambda x: x))


def test_a_response_that_the_loss_does_not_count_is_no_response():
    probe = Entropy()
    H = [[1.0, 2.0], [3.0, 9.0], [9.0, 9.0]]
    probe.micro_step(ALONE, micro_batch(H, [[1, 1], [1, 0], [0, 0]], [0, 1, 1]))
    metrics = probe.update(ALONE, 1)
    assert metrics["entropy/token"] == pytest.approx(2.0)
    assert metrics["entropy/sequence"] == pytest.approx(3.0)


def test_an_update_without_a_counted_token_has_no_entropy_and_the_next_one_has():
    probe = Entropy()
    probe.micro_step(ALONE, micro_batch([[9.0], [9.0]], [[0], [0]], [0, 1]))
    assert all(math.isnan(x) for x in probe.update(ALONE, 1).values())
    probe.micro_step(ALONE, micro_batch([[1.0], [2.0]], [[1], [1]], [0, 1]))
    assert probe.update(ALONE, 2)["entropy/token"] == pytest.approx(1.5)
