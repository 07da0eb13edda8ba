"""What `em.watch_verl` records of verl's own actor, one process and two."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import entrometer as em
from benchmarks.importers.frameworks import site
from benchmarks.losses.difference import step_apart
from benchmarks.losses.verl_actor import GROUP, LIMIT, PROMPTS, RATE
from benchmarks.losses.verl_losses import REFUSED, refusal, train
from entrometer.cli import main
from entrometer.errors import InvalidValue
from entrometer.importers import read_foreign, write_checkpoint
from entrometer.policy import load_checkpoint, save_tiny
from entrometer.runs import read_update, update_path
from entrometer.training.verl import _ordered, _Part, _steps_taken
from tests.cli.conftest import SMALL

needs_verl = pytest.mark.skipif(
    not (site("verl") / "verl").is_dir(),
    reason=f"no verl in {site('verl')}; .ci/run installs it",
)

CASE = {
    "actor": {
        "loss_agg_mode": "seq-mean-token-mean",
        "clip_ratio_high": 2e-3,
        "entropy_coeff": 0.05,
        "use_kl_loss": True,
        "ppo_epochs": 2,
    },
    "clip_grad": 0.1,
    "temperature": 0.7,
    "mini": 8,
    "updates": 1,
}
STEPS = 4  # Two epochs of two mini-batches.


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    made = {}

    def training(name, *, processes=1, **more):
        if name not in made:
            out = tmp_path_factory.mktemp(name)
            save_tiny(out / "base")
            made[name] = out, train(CASE | more, out, processes=processes)
        return made[name]

    return training


def compared(out, truth):
    """Differences of gradient and step at each step that has a checkpoint before it."""
    pairs = []
    for step in range(2, len(truth) + 1):
        imported = out / f"checkpoint-{step - 1}"
        write_checkpoint(read_foreign(out / f"global_step_{step - 1}"), imported)
        pairs.append(step_apart(out, step, load_checkpoint(imported), truth[step - 1]))
    return pairs


@needs_verl
def test_the_actors_own_gradient_and_step_follow_from_the_files(trainings):
    out, truth = trainings("one")
    assert len(truth) == STEPS
    for gradient, step in compared(out, truth):
        assert gradient < 1e-5
        assert step < 1e-5


@needs_verl
@pytest.mark.slow
def test_two_processes_that_a_line_of_config_watches(trainings):
    line = "entrometer.training.verl_plugin"
    out, truth = trainings("two", processes=2, external_lib=line)
    assert len(truth) == STEPS
    for gradient, step in compared(out, truth):
        assert gradient < 1e-5
        assert step < 1e-5
    # Each process has half of every mini-batch: the first two prompts and the last two.
    batch = read_update(update_path(out, 1))
    assert batch.count == 8
    assert len(set(batch.prompt.tolist())) == 2


@needs_verl
@pytest.mark.slow
def test_a_watched_training_is_the_same_to_the_bit(trainings):
    _, watched = trainings("one")
    out, bare = trainings("bare", watched=False)
    assert not (out / "updates").exists()
    for ours, theirs in zip(watched, bare, strict=True):
        assert ours["after"].keys() == theirs["after"].keys()
        for name, weight in theirs["after"].items():
            assert torch.equal(ours["after"][name], weight), name


@needs_verl
def test_files_have_what_verls_config_and_batch_say(trainings):
    out, truth = trainings("one")
    batches = [read_update(update_path(out, n + 1)) for n in range(STEPS)]
    for n, batch in enumerate(batches):
        settings = batch.settings
        assert (settings.step, settings.max_tokens) == (n + 1, LIMIT)
        assert (settings.temperature, settings.max_grad_norm) == (0.7, 0.1)
        assert settings.loss.startswith("verl 0.9.1: loss_mode=vanilla, loss_agg_mode=")
        for text in ("seq-mean-token-mean", "entropy_coeff=0.05", "use_kl_loss=True"):
            assert text in settings.loss
        assert "clip_ratio_high=0.002" in settings.loss
        assert "clip_ratio_low" not in settings.loss
        assert settings.beyond_tokens == ()
        np.testing.assert_array_equal(batch.row, np.arange(8))
        np.testing.assert_array_equal(batch.group, np.arange(8) // GROUP)
        for i in range(batch.count):
            counted = batch.counted[i]
            # The second token is the output of a tool.
            assert not counted[1]
            np.testing.assert_array_equal(batch.written[i], counted)
            assert not batch.alpha[i][~counted].any()
            assert not batch.gamma[i][~counted].any()
            assert (batch.gamma[i][counted] > 0).all()
            assert (batch.H[i][counted] > 0).all()
            assert np.isnan(batch.H[i][~counted]).all()
            assert batch.S_ref is not None
            assert batch.S_engine is not None
    # Rewards are verl's, whose advantages are these over a group, divided.
    for batch in batches[:2]:
        rewards = batch.reward.reshape(-1, GROUP)
        scaled = (rewards - rewards.mean(1, keepdims=True)) / (
            rewards.std(1, ddof=1, keepdims=True) + 1e-6
        )
        recorded = [a[0] for a in batch.advantage]
        np.testing.assert_allclose(recorded, scaled.ravel(), rtol=1e-5)
    # The first step of a batch is at ratio 1, a later epoch is not.
    first, later = batches[0], batches[2]
    np.testing.assert_allclose(
        np.concatenate(first.S), np.concatenate(first.S_old), atol=1e-5
    )
    pairs = zip(later.of_policy("S"), later.of_policy("S_old"), strict=True)
    assert max(abs(a - b).max() for a, b in pairs) > 1
    rewards = np.concatenate([b.reward for b in batches])
    assert len(set(rewards.tolist())) == GROUP * PROMPTS
    assert {step["rate"] for step in truth} == {RATE}


@needs_verl
def test_a_recorded_step_of_verl_is_measured(trainings, tmp_path, capsys):
    out, _ = trainings("one")
    run = tmp_path / "run"
    (run / "updates").mkdir(parents=True)
    update_path(run, 3).write_bytes(update_path(out, 3).read_bytes())
    source = str(out / "global_step_2")
    assert main(["import", source, str(run / "checkpoint-2")]) == 0
    capsys.readouterr()
    arguments = [str(run / "checkpoint-2"), "--run", str(tmp_path / "measured")]
    arguments += [
        "--task",
        # A task with a tool, as the recorded responses have one.
        "calculator",
        "--json",
        "--no-report",
        *SMALL,
        "--etas",
        "1e-6",
    ]
    assert main(["measure", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "entropy" in printed
    print(printed)


@needs_verl
@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_refused_by_name(name):
    assert name in refusal(REFUSED[name])


def test_another_worker_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match=r"TrainingWorker of verl.*SimpleNamespace"):
        em.watch_verl(SimpleNamespace(), tmp_path)


def test_rows_of_processes_are_ordered_by_their_prompts():
    def part(*groups):
        rows = [{"group": g, "from": i} for i, g in enumerate(groups)]
        return _Part(rows, 0, set(), set())

    rows = _ordered([part("b", "a"), part("a", "c", "b")])
    assert [row["group"] for row in rows] == [0, 0, 1, 1, 2]
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["from"] for row in rows] == [0, 2, 1, 0, 1]


def test_steps_are_those_of_the_optimizer_that_a_checkpoint_restores():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    assert _steps_taken(optimizer) == 0
    for _ in range(3):
        weight.grad = torch.ones(2)
        optimizer.step()
    resumed = torch.optim.AdamW([weight])
    resumed.load_state_dict(optimizer.state_dict())
    assert _steps_taken(resumed) == 3


def test_the_recorder_needs_neither_transformers_nor_trl():
    """verl requires an earlier transformers than the rest of this package."""
    code = (
        "import sys, entrometer.training.verl\n"
        "print(*sys.modules.keys() & {'transformers', 'trl', 'accelerate', 'peft'})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_the_calls_of_a_training_are_functions_each_time():
    """A module of the training package has the name of one."""
    for _ in range(2):
        assert callable(em.watch)
        assert callable(em.watch_verl)
