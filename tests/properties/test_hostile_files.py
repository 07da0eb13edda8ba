"""Whatever is flipped or replaced in a file of a checkpoint: an error of ours, or none.

The inputs are drawn with a seed. `python -m benchmarks hostile` has those that were
thought out, with their time and memory.
"""

import json
import random
import shutil

import numpy as np
import pytest
import torch

from benchmarks.hostile.world import STEP, optimizer, update
from entrometer.errors import EntrometerError
from entrometer.policy import load_checkpoint, load_policy, save_tiny
from entrometer.policy.checkpoint import weights_key
from entrometer.policy.optimizer_state import optimizer_key
from entrometer.runs import read_update, write_update
from entrometer.runs.updates import require_usable

VALUES = (None, True, -1, 5, 10**12, float("nan"), "", "x", [], [1], {}, {"a": 1}, "\0")
JSON = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "trainer_state.json",
)
BINARY = ("model.safetensors", "optimizer.pt", "update.parquet")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = save_tiny(tmp_path_factory.mktemp("sound") / "checkpoint")
    torch.save(optimizer(load_policy(path).model), path / "optimizer.pt")
    state = {"global_step": STEP, "max_steps": 8, "log_history": []}
    (path / "trainer_state.json").write_text(json.dumps(state))
    write_update(path / "update.parquet", update())
    return path


def read_all(path):
    """Everything that an experiment reads of a checkpoint, up to its first pass."""
    weights_key(path, None)
    optimizer_key(path / "optimizer.pt")
    load_checkpoint(path)
    batch = read_update(path / "update.parquet")
    require_usable(path / "update.parquet", batch)


def refusal(path):
    """What a damaged checkpoint is refused with; its path if it is read after all."""
    try:
        read_all(path)
    except EntrometerError as error:
        return str(error)
    return str(path)


def places(value, found):
    """Every container in a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inside in items:
        found.append((value, key))
        if isinstance(inside, dict | list) and len(inside) < 50:
            places(inside, found)
    return found


def mutated(text, seed):
    rng = random.Random(seed)
    content = json.loads(text)
    for _ in range(rng.randint(1, 2)):
        container, key = rng.choice(places(content, []))
        if rng.random() < 0.2:
            del container[key]
        else:
            container[key] = rng.choice(VALUES)
    return json.dumps(content)


def flipped(raw, seed):
    rng = np.random.default_rng(seed)
    raw = bytearray(raw)
    kind = seed % 3
    if kind == 0:
        return bytes(raw[: rng.integers(len(raw))])
    # Headers and footers are where the structure is.
    size = len(raw) if kind == 1 else min(len(raw), 2000)
    for place in rng.integers(size, size=4):
        at = place if rng.random() < 0.5 else len(raw) - 1 - place
        raw[at] ^= int(rng.integers(1, 256))
    return bytes(raw)


def test_the_sound_files_are_read(sound):
    read_all(sound)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("seed", range(6))
def test_replaced_values_end_in_an_error_of_ours_or_in_none(
    sound, tmp_path, name, seed
):
    path = shutil.copytree(sound, tmp_path / "checkpoint")
    text = mutated((path / name).read_text(), f"{name} {seed}")
    (path / name).write_text(text)
    assert "\n" not in refusal(path), text


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("seed", range(9))
def test_flipped_bytes_end_in_an_error_of_ours_or_in_none(sound, tmp_path, name, seed):
    path = shutil.copytree(sound, tmp_path / "checkpoint")
    (path / name).write_bytes(flipped((path / name).read_bytes(), seed))
    assert str(path) in refusal(path)
