"""Losses that read the log-probs of an inference engine, or of a reference."""

from pathlib import Path

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.interventions import intervention
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import read_update, update_path
from entrometer.training import Recorder, Trainer
from tests.training.recorded_gradient import (
    distance,
    recorded_gradient,
    recorded_rollouts,
    trained_gradient,
)
from tests.training.toy import make_trainer, train


class Mismatched(Trainer):
    """Responses as if an engine in other numerics had drawn them."""

    def available_tables(self):
        return super().available_tables() | {"S_engine"}

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        S = output["old_per_token_logps"]
        noise = torch.randn(S.shape, generator=torch.Generator().manual_seed(5))
        return output | {"sampling_per_token_logps": S + 0.2 * noise}


def reading(kind: type[Trainer], path: Path, text: str) -> Trainer:
    """Return a trainer of five updates, in two rounds of sampling, under a loss."""
    keywords = {"base": "tiny", "intervention": text}
    return make_trainer(kind, path, 5, [Recorder()], keywords=keywords, max_grad_norm=0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # Form 3 is an exponential of the distance, which is large on this training.
        ("kl-reference:beta=0.5,form=2", Trainer),
        ("tis:cap=1.1", Mismatched),
        ("icepop:least=0.9,most=1.2", Mismatched),
        ("mis:most=1.1", Mismatched),
        ("dppo-engine:low=0.02,high=0.02", Mismatched),
    ],
)
def test_log_probs_of_an_engine_and_of_a_reference_reach_the_loss(tmp_path, text, kind):
    """Of the second round of sampling, after the policy has left the reference."""
    with torch.random.fork_rng(devices=[]):
        train(reading(kind, tmp_path, text))
    expected = recorded_gradient(tmp_path, 5, intervention(text), steps=5)
    found = trained_gradient(tmp_path, 5)
    assert distance(found, expected) < 1e-5
    plain = recorded_gradient(tmp_path, 5, intervention("dr-grpo"), steps=5)
    assert distance(found, plain) > 0.01


def test_the_reference_is_the_policy_that_dr_grpo_began_with(tmp_path):
    with torch.random.fork_rng(devices=[]):
        train(reading(Trainer, tmp_path, "kl-reference"))
    batch = read_update(update_path(tmp_path, 5))
    policy = load_checkpoint(tmp_path / "checkpoint-0").policy
    S = passes.forward(policy, recorded_rollouts(batch)).S
    counted = np.concatenate(batch.counted)
    np.testing.assert_allclose(
        np.concatenate(batch.S_ref)[counted], S[counted], rtol=1e-4, atol=1e-5
    )
    now = np.concatenate(batch.S)[counted]
    assert np.abs(now - S[counted]).max() > 0.01


def test_a_trainer_without_the_log_probs_says_how_to_get_them(tmp_path):
    with pytest.raises(InvalidValue, match=r"'S_engine'.*sample with vLLM"):
        make_trainer(Trainer, tmp_path, 1, keywords={"intervention": "tis"})


def test_the_checkpoint_that_is_the_reference_must_stay(tmp_path):
    """Otherwise a run that was killed could not resume."""

    def trainer(text, **settings):
        keywords = {"base": "tiny", "intervention": text}
        return make_trainer(Trainer, tmp_path, 1, keywords=keywords, **settings)

    with pytest.raises(InvalidValue, match="save_total_limit=2; leave it out"):
        trainer("kl-reference", save_total_limit=2)
    trainer("clip-higher", save_total_limit=2)
