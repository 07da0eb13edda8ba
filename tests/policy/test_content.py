import shutil

import pytest

from entrometer.policy import SourceNotFound, save_tiny
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
