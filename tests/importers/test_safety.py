"""Files of others are pickles: nothing in them may run."""

import os
import pickle

import pytest
import torch

from entrometer.importers import read_foreign
from entrometer.importers.deepspeed import HARMLESS
from entrometer.policy.sources import UnreadableSource
from entrometer.policy.tensor_files import read_tensors


class Hostile:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("harmless", [(), HARMLESS])
def test_a_hostile_file_runs_nothing(harmless, tmp_path):
    file, mark = tmp_path / "optim_world_size_1_rank_0.pt", tmp_path / "ran"
    torch.save({"state": Hostile(mark)}, file)
    with pytest.raises(UnreadableSource, match="not a whole file of tensors"):
        read_tensors(file, absent="", harmless=harmless)
    assert not mark.exists()
    # The file is as hostile as it is meant to be.
    pickle.loads(pickle.dumps(Hostile(mark)))
    assert mark.exists()


@pytest.mark.parametrize("latest", ["../elsewhere", "..", "../elsewhere/.."])
def test_a_latest_step_leads_nowhere_else(tmp_path, latest):
    inside, outside = tmp_path / "_actor", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    for place in (tmp_path, outside):
        (place / "zero_pp_rank_0_mp_rank_00_optim_states.pt").touch()
    (inside / "latest").write_text(latest)
    with pytest.raises(UnreadableSource, match="got none of them"):
        read_foreign(inside)


@pytest.mark.parametrize(
    ("shapes", "held"),
    [
        ({}, {}),
        ({"param_shapes": 5, "frozen_param_shapes": None}, {}),
        (
            {"param_shapes": [], "frozen_param_shapes": None},
            {"optimizer_state_dict": 5},
        ),
        (
            {"param_shapes": [{"a": "b"}], "frozen_param_shapes": None},
            {"optimizer_state_dict": {"fp32_flat_groups": ["a"]}},
        ),
    ],
)
def test_files_without_what_deepspeed_saves_are_refused(tmp_path, shapes, held):
    torch.save(shapes, tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    torch.save(held, tmp_path / "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    (tmp_path / "base").mkdir()
    with pytest.raises(UnreadableSource, match="expected a checkpoint as DeepSpeed"):
        read_foreign(tmp_path, base=str(tmp_path / "base"))
