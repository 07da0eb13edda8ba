import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from entrometer.policy import (
    SourceNotFound,
    UnreadableSource,
    load_policy,
    save_tiny,
)
from entrometer.policy.adapter import CONFIG
from entrometer.policy.content import weights_key
from tests.policy.saved_models import edit, save_adapter


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return [save_tiny(directory / f"tiny-{seed}", seed=seed) for seed in range(2)]


def test_weights_are_known_by_content(models, tmp_path):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    (copy / "optimizer.pt").write_bytes(b"not read")
    assert weights_key(copy, None) == weights_key(models[0], None)
    assert weights_key(copy, "tiny") != weights_key(copy, None)
    assert weights_key(models[1], None) != weights_key(models[0], None)


def test_a_base_is_known_by_content_wherever_it_is(models, tmp_path):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    keys = [weights_key(models[1], base) for base in (models[0], copy, models[1])]
    assert keys[0] == keys[1] != keys[2]


def test_a_recorded_base_is_known_by_content_wherever_it_is(models, tmp_path):
    adapter = save_adapter(models[0], tmp_path / "adapter")
    edit(adapter / CONFIG, base_model_name_or_path="../base")
    keys = []
    for number, base in enumerate((models[0], models[0], models[1])):
        folder = tmp_path / str(number)
        shutil.copytree(base, folder / "base")
        shutil.copytree(adapter, folder / "adapter")
        keys.append(weights_key(folder / "adapter", None))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("name", ["model.safetensors", "generation_config.json"])
def test_one_byte_of_a_file_that_decides_is_enough(models, tmp_path, name):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert weights_key(copy, None) != weights_key(models[0], None)


def test_an_absent_checkpoint_is_named(tmp_path):
    with pytest.raises(SourceNotFound, match="checkpoint-4"):
        weights_key(tmp_path / "checkpoint-4", None)


def sharded(model, directory):
    """The same weights in two files, with an index that lists them."""
    copy = shutil.copytree(model, directory)
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(weights)
    files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in files.items():
        tensors = {name: weights[name] for name in own}
        save_file(tensors, copy / file, metadata={"format": "pt"})
    listed = {name: file for file, own in files.items() for name in own}
    write_index(copy, listed)
    return copy, listed


def write_index(directory, listed):
    index = {"metadata": {}, "weight_map": listed}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def test_the_files_that_are_hashed_are_those_that_are_loaded(models, tmp_path):
    copy, _ = sharded(models[0], tmp_path / "copy")
    before = weights_key(copy, None)
    assert torch.equal(
        load_policy(copy).head_weight, load_policy(models[0]).head_weight
    )
    # Not listed, so neither loaded nor hashed.
    (copy / "stray.safetensors").write_bytes(b"anything")
    assert weights_key(copy, None) == before
    raw = bytearray((copy / "b.safetensors").read_bytes())
    raw[-1] ^= 1
    (copy / "b.safetensors").write_bytes(raw)
    assert weights_key(copy, None) != before


def test_an_index_does_not_lead_out_of_its_directory(models, tmp_path):
    """Weights outside would be loaded, and files of the same name inside hashed."""
    copy, listed = sharded(models[0], tmp_path / "run" / "copy")
    outside = tmp_path / "out"
    outside.mkdir()
    for file in set(listed.values()):
        shutil.copy(copy / file, outside / file)
    write_index(copy, {name: f"../../out/{file}" for name, file in listed.items()})
    for read in (load_policy, lambda path: weights_key(path, None)):
        with pytest.raises(UnreadableSource, match=r"index\.json: expected plain"):
            read(copy)


@pytest.mark.parametrize(
    "listed",
    [{"a": 5}, ["a.safetensors"], {}, None, 7, {"a": ["a.safetensors"]}, {"a": ".."}],
)
def test_an_index_of_something_else_is_refused_by_name(models, tmp_path, listed):
    copy, _ = sharded(models[0], tmp_path / "copy")
    write_index(copy, listed)
    for read in (load_policy, lambda path: weights_key(path, None)):
        with pytest.raises(UnreadableSource, match=r"index\.json: expected"):
            read(copy)


def test_a_weight_in_two_files_is_refused(models, tmp_path):
    copy, _ = sharded(models[0], tmp_path / "copy")
    shutil.copy(copy / "a.safetensors", copy / "b.safetensors")
    with pytest.raises(UnreadableSource, match="each weight in one file"):
        load_policy(copy)
