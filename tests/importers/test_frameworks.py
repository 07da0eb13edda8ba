"""Checkpoints that verl and DeepSpeed themselves write, two processes each."""

import json
import shutil

import pytest
import torch

from benchmarks.importers import compared
from benchmarks.importers.frameworks import KINDS, STEPS, site, train
from entrometer.cli import main
from entrometer.importers import read_foreign
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.runs import verify

INSTALLED = {f for f in KINDS if (site(f) / f).is_dir()}


def needs(framework):
    reason = f"no {framework} in {site(framework)}; .ci/run installs it"
    return pytest.mark.skipif(framework not in INSTALLED, reason=reason)


@pytest.fixture(scope="session")
def truths(tmp_path_factory):
    made = {}

    def truth(framework, kind):
        name = (framework, kind)
        if name not in made:
            folder = tmp_path_factory.mktemp(f"{framework}-{kind}")
            made[name] = train(framework, kind, folder)
        return made[name]

    return truth


@pytest.mark.parametrize(
    ("framework", "kind"),
    [
        pytest.param(framework, kind, marks=needs(framework))
        for framework, kinds in KINDS.items()
        for kind in kinds
        if kind not in ("zero1", "zero2")
    ],
)
def test_every_bit_is_theirs_and_so_is_the_next_step(framework, kind, truths, tmp_path):
    found = compared(truths(framework, kind), tmp_path / "imported")
    assert found["tensors"] > 100
    assert found["others"] == 0
    assert found["after"] < 1e-6
    assert found["step"] < 5e-5


@needs("verl")
def test_a_step_of_verl_is_imported_by_the_command_line(truths, tmp_path, capsys):
    truth, out = truths("verl", "fsdp2"), tmp_path / "out"
    assert main(["import", str(truth.path), str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["step"] == STEPS
    assert verify(out) == {"kind": "imported checkpoint"}
    checkpoint = load_checkpoint(out)
    assert checkpoint.learning_rate == told["learning_rate"] == pytest.approx(3e-4)
    assert set(checkpoint.hyperparameters.weight_decay.values()) == {0.01}
    assert len({p.stat().st_mode for p in out.rglob("*") if p.is_file()}) == 1
    assert main(["import", str(truth.path), str(out)]) == 2
    assert "got one that exists; name another" in capsys.readouterr().err


@needs("verl")
def test_a_file_of_one_process_that_is_missing_is_named(truths, tmp_path):
    copy = tmp_path / "step"
    shutil.copytree(truths("verl", "fsdp2").path, copy)
    (copy / "actor" / "model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(SourceNotFound, match=r"model_world_size_2_rank_1\.pt: no such"):
        read_foreign(copy)


@needs("verl")
def test_an_adapter_without_its_base_asks_for_it(truths, tmp_path, capsys):
    copy = tmp_path / "step"
    truth = truths("verl", "fsdp2-lora")
    shutil.copytree(truth.path, copy)
    for file in (copy / "actor").glob("model_*"):
        held = torch.load(file, weights_only=True)
        torch.save({n: w for n, w in held.items() if "lora_" in n}, file)
    assert main(["import", str(copy), str(tmp_path / "out")]) == 2
    assert "--base" in capsys.readouterr().err
    arguments = ["import", str(copy), str(tmp_path / "out"), "--base", str(truth.base)]
    assert main(arguments) == 0
    found = load_checkpoint(tmp_path / "out", base=truth.base)
    for name, moment in found.state.second_moment.items():
        assert torch.equal(moment, truth.second_moment[name])


@needs("deepspeed")
def test_deepspeed_asks_for_the_model_and_takes_the_latest_step(truths):
    truth = truths("deepspeed", "zero3")
    with pytest.raises(SourceNotFound, match="--base"):
        read_foreign(truth.path)
    latest = read_foreign(truth.path.parent, base=str(truth.base))
    assert latest.step == STEPS + 1


@needs("deepspeed")
@pytest.mark.parametrize(("how", "rank"), [("zero2", 0), ("zero2", 1), ("zero3", 1)])
def test_a_process_of_deepspeed_that_is_missing_is_told(truths, tmp_path, how, rank):
    truth = truths("deepspeed", how)
    copy = tmp_path / "step"
    shutil.copytree(truth.path, copy)
    (file,) = copy.glob(f"*zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    file.unlink()
    with pytest.raises(UnreadableSource, match=r"file is missing.*copy all again"):
        read_foreign(copy, base=str(truth.base))


def test_what_no_framework_wrote_is_refused(tmp_path):
    with pytest.raises(UnreadableSource, match="expected files of verl"):
        read_foreign(tmp_path)
