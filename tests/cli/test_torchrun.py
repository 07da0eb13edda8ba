"""Commands that several processes run together, started by torchrun."""

import pytest

from entrometer.cli import main, torchrun
from entrometer.errors import InvalidValue


@pytest.fixture
def started(monkeypatch):
    """Set the environment as torchrun does."""

    def start(processes, rank=0):
        values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return start


@pytest.mark.parametrize(
    ("processes", "settings", "said"),
    [
        (
            1,
            {"shards": 2},
            "expected 2 processes .* got 1; .*torchrun --nproc-per-node 2",
        ),
        (
            2,
            {"shards": 1},
            "expected --model-shards 2, .* got 1; give --model-shards 2",
        ),
        (2, {"shards": 3}, "expected --model-shards 2, .* got 3; .* or start 3"),
        (2, {"shards": 2, "engine": "ray"}, "expected one process for --engine ray"),
        (2, {"shards": 2, "dry_run": True}, "expected --model-shards 1 for --dry-run"),
    ],
)
def test_other_than_one_process_per_shard_is_refused(
    started, processes, settings, said
):
    if processes > 1:
        started(processes)
    with pytest.raises(InvalidValue, match=said):
        torchrun.require_processes(**settings)


def test_as_many_processes_as_shards_and_any_number_on_ray_are_accepted(started):
    torchrun.require_processes(1)
    torchrun.require_processes(4, engine="ray")
    started(2)
    torchrun.require_processes(2)
    assert not torchrun.follows()
    started(2, rank=1)
    assert torchrun.follows()


ARGUMENTS = [
    *("--task", "arithmetic", "--max-tokens", "8", "--updates", "sampled-1"),
    *("--curvature-prompts", "0"),
]


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    return str(tmp_path)


def test_a_sharded_model_needs_more_processes_than_one(started, checkpoint, capsys):
    assert main(["measure", checkpoint, *ARGUMENTS, "--model-shards", "2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("entrometer measure: expected 2 processes")


def test_a_device_with_a_number_is_not_every_members(started, checkpoint, capsys):
    shards = ["--model-shards", "2", "--device", "cuda:1"]
    assert main(["measure", checkpoint, *ARGUMENTS, *shards]) == 2
    assert "expected a kind of device" in capsys.readouterr().err


def test_only_the_leader_prints(started, checkpoint, capsys, monkeypatch):
    started(2, rank=1)
    config = [*ARGUMENTS, "--model-shards", "2", "--print-config"]
    assert main(["measure", checkpoint, *config]) == 0
    assert capsys.readouterr() == ("", "")
    # A mistake that the leader does not have.
    monkeypatch.setattr(torchrun, "_PAUSE", 0.0)
    assert main(["measure", checkpoint, *ARGUMENTS, "--model-shards", "3"]) == 2
    assert "expected --model-shards 2" in capsys.readouterr().err
