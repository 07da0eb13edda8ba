from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.estimators import Weighting, change_statistics, entropy_change
from entrometer.policy import sample, tiny_policy
from entrometer.runs.seeds import response_seeds
from entrometer.training.instruments import Instrument
from entrometer.training.probes import PredictedChange

HELD_OUT = [[11, 12, 13], [14, 15], [16, 17, 18, 19], [20]]


def generators():
    """Of torch and NumPy; what checks types in tests draws from Python's own."""
    # The legacy one is looked at, not used: trainers draw from it.
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), name, keys.tolist(), rest


class Last(Instrument):
    """What it finds after the instruments before it."""

    def __init__(self):
        self.modes, self.generators, self.weights = [], [], []

    def update(self, trainer, step):
        self.before = {n: p.detach().clone() for n, p in weights(trainer)}
        return {}

    def updated(self, trainer, step):
        self.modes.append([m.training for m in trainer.model.modules()])
        self.generators.append(generators())
        self.weights.append({n: p.detach().clone() for n, p in weights(trainer)})
        return {}


def weights(trainer):
    return trainer.model.named_parameters()


@pytest.mark.parametrize(
    ("lora_rank", "settings"),
    [(4, {}), (None, {}), (4, {"gradient_checkpointing": True})],
)
def test_training_is_the_same_to_the_bit_with_it_and_without(
    make_trainer, train, lora_rank, settings
):
    found = []
    for probes in ([], [PredictedChange(every=1, prompts=HELD_OUT)]):
        last = Last()
        logs = train(
            make_trainer(*probes, last, lora_rank=lora_rank, max_steps=3, **settings)
        )
        found.append(last)
        assert ("predicted_change/observed" in logs[0]) == bool(probes)
    without, with_it = found
    assert with_it.modes == without.modes
    assert with_it.generators == without.generators
    for a, b in zip(with_it.weights, without.weights, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(
        *(
            torch.cat([p.flatten() for p in w.values()])
            for w in (without.weights[0], without.weights[-1])
        )
    )


def test_only_every_nth_update_is_looked_at(make_trainer, train):
    probe = PredictedChange(every=2, prompts=HELD_OUT)
    logs = train(make_trainer(probe, max_steps=4))
    looked = ["predicted_change/predicted" in log for log in logs]
    assert looked == [False, True, False, True]
    first, second = (log["predicted_change/observed"] for log in logs[1::2])
    assert first != second


def test_the_observed_change_is_between_the_weights_before_and_after(
    make_trainer, train
):
    """Measured again, on a policy of its own and responses of the same seeds."""
    last = Last()
    trainer = make_trainer(
        PredictedChange(every=1, prompts=HELD_OUT, seed=5), last, temperature=0.8
    )
    (log,) = train(trainer)
    policy = tiny_policy(lora_rank=4)

    def put(values):
        policy.model.load_state_dict(values, strict=False)
        assert all(torch.equal(p, values[n]) for n, p in policy.trained().items())

    put(last.before)
    ids = range(len(HELD_OUT))
    rollouts = sample(
        policy,
        HELD_OUT,
        prompt_ids=ids,
        temperature=0.8,
        max_tokens=8,
        seed=response_seeds(int(response_seeds(5, [1])[0]), ids),
    )
    here = passes.forward(policy, rollouts)
    put(last.weights[0])
    there = passes.forward(policy, rollouts)
    change = entropy_change(
        change_statistics(
            passes.layout(rollouts), here, there, weighting=Weighting.PER_DECISION
        )
    )
    assert log["predicted_change/observed"] == change.value
    assert log["predicted_change/observed_se"] == change.standard_error
    assert log["predicted_change/effective_samples"] == change.effective_samples


@pytest.mark.parametrize(("lora_rank", "rate"), [(4, 4e-4), (None, 1e-4)])
def test_prediction_and_observation_part_by_the_square_of_the_step(
    make_trainer, train, lora_rank, rate
):
    """Of one estimator a value and a derivative; of two they would part at once."""
    found = []
    for learning_rate in (rate, rate / 4):
        probe = PredictedChange(every=1, prompts=HELD_OUT * 4)
        trainer = make_trainer(probe, lora_rank=lora_rank, learning_rate=learning_rate)
        (log,) = train(trainer)
        predicted, observed, error = (
            log[f"predicted_change/{name}"]
            for name in ("predicted", "observed", "error")
        )
        assert error == pytest.approx(predicted - observed, rel=1e-9)
        found.append((predicted, error))
    assert found[0][0] / found[1][0] == pytest.approx(4, rel=1e-3)
    assert found[0][1] / found[1][1] == pytest.approx(16, rel=0.15)


def stub(model=None, *, processes=1, kind="NO"):
    return SimpleNamespace(
        model=model or nn.Linear(2, 2),
        accelerator=SimpleNamespace(
            num_processes=processes, distributed_type=SimpleNamespace(value=kind)
        ),
    )


def test_what_cannot_be_measured_is_refused_with_a_remedy():
    with pytest.raises(InvalidValue, match="at least 2 prompts"):
        PredictedChange(every=1, prompts=HELD_OUT[:1])
    with pytest.raises(InvalidValue, match="got every=0"):
        PredictedChange(every=0, prompts=HELD_OUT)
    probe = PredictedChange(every=1, prompts=HELD_OUT)
    probe.attach(stub())
    with pytest.raises(InvalidValue, match="leave PredictedChange out"):
        probe.attach(stub(kind="DEEPSPEED"))
    with pytest.raises(InvalidValue, match="float32 or bfloat16"):
        probe.attach(stub(nn.Linear(2, 2).half()))
    with pytest.raises(InvalidValue, match="each of 5 processes, got 4"):
        probe.attach(stub(processes=5))


def test_momentum_of_another_optimizer_is_not_known(make_trainer, train):
    """Moments that are not AdamW's say nothing that this probe can read."""
    probe = PredictedChange(every=1, prompts=HELD_OUT)
    trainer = make_trainer(probe, max_steps=2, optim="sgd", optim_args="momentum=0.9")
    first, second = train(trainer)[:2]
    for log in (first, second):
        assert "predicted_change/predicted" in log
        assert "predicted_change/momentum" not in log
        assert "predicted_change/batch" not in log
