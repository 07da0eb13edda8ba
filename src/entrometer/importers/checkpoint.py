"""The state that every framework saves, and the checkpoint that it is written to."""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from entrometer.importers.sharded import ShardedTensor, mapped, write_safetensors
from entrometer.policy.adapter import base_fields
from entrometer.policy.loading import load_policy
from entrometer.policy.optimizer_state import decay_groups
from entrometer.policy.precision import Precision
from entrometer.policy.sources import (
    TINY,
    UnreadableSource,
    find_directory,
    require_plain_files,
)
from entrometer.policy.weights import lora_config, weight_files
from entrometer.runs import apply_umask, seal
from entrometer.runs.atomic import naming_full_disk

# Remedy for a missing file.
EVERY_PROCESS = (
    "Every process saved one; copy the whole directory again, from all nodes."
)


class Lora(NamedTuple):
    """Shape of the trained adapter."""

    rank: int
    alpha: float
    targets: tuple[str, ...]  #: Last parts of the names of the adapted modules.


@dataclass(frozen=True, eq=False)
class ForeignCheckpoint:
    """Another framework's checkpoint: weights and AdamW's state, by name.

    Tensors stay in the framework's files, which must not change until
    `write_checkpoint` has returned.
    """

    about: Path  #: Directory with `config.json` and the tokenizer.
    lora: Lora | None  #: None if the model itself was trained.
    #: All weights, including those of an adapter.
    weights: Mapping[str, ShardedTensor]
    first_moment: Mapping[str, ShardedTensor]
    #: AdamW's moments of the trained parameters.
    second_moment: Mapping[str, ShardedTensor]
    weight_decay: Mapping[str, float]
    step: int  #: Number of optimizer steps; a round of sampling may have several.
    learning_rate: float  #: Learning rate of the next step.
    betas: tuple[float, float]
    epsilon: float


_SETTINGS = ("*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
_ADAPTER, _BASE_LAYER = "base_model.model.", ".base_layer."


def write_checkpoint(
    checkpoint: ForeignCheckpoint, out: Path, *, base: str | None = None
) -> Path:
    """Write `out`, a Trainer's checkpoint with its manifest, completely or not at all.

    `base` is the model under an adapter; None writes it to `out/base`, from the weights
    that were saved with the adapter. `out` must not exist yet. Memory holds one tensor
    at a time; while `optimizer.pt` is written, the disk holds the moments twice.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        new = Path(folder) / "new"
        new.mkdir()
        with naming_full_disk(Path(folder)):
            if checkpoint.lora is None:
                _write_model(checkpoint.about, checkpoint.weights, new)
            else:
                if base is None:
                    _write_base(checkpoint, new)
                fields = base_fields(base or str(new / "base"), out if base else new)
                _write_adapter(checkpoint.lora, checkpoint.weights, new, fields)
            _write_optimizer(checkpoint, new, base, Path(folder) / "moments")
            state = {"global_step": checkpoint.step}
            (new / "trainer_state.json").write_text(json.dumps(state))
            apply_umask(new)
            seal(new, about={"kind": "imported checkpoint"})
        new.rename(out)
    return out


def _write_model(about: Path, weights: Mapping[str, ShardedTensor], new: Path) -> None:
    require_plain_files(about)
    for pattern in _SETTINGS:
        for file in about.glob(pattern):
            shutil.copy(file, new / file.name)
    write_safetensors(new / "model.safetensors", weights)


def _write_base(checkpoint: ForeignCheckpoint, new: Path) -> None:
    # The frozen weights, under the names they had before peft wrapped them.
    frozen = {
        name.removeprefix(_ADAPTER).replace(_BASE_LAYER, "."): weight
        for name, weight in checkpoint.weights.items()
        if "lora_" not in name
    }
    if not frozen:
        raise UnreadableSource(
            f"{checkpoint.about.parent}: expected the weights of the model, got those "
            "of its adapter alone. With --base, name the model that was trained."
        )
    (new / "base").mkdir()
    _write_model(checkpoint.about, frozen, new / "base")


def _write_adapter(
    lora: Lora,
    weights: Mapping[str, ShardedTensor],
    new: Path,
    base: Mapping[str, str | None],
) -> None:
    config = lora_config(*lora)
    for name, value in base.items():
        setattr(config, name, value)
    config.save_pretrained(str(new))
    adapter = {
        name.replace(".default.weight", ".weight"): weight
        for name, weight in weights.items()
        if "lora_" in name
    }
    write_safetensors(new / "adapter_model.safetensors", adapter)


def _stored_precision(source: str | Path) -> Precision:
    """Return the precision in which loading a model leaves its weights in their file.

    Loading in another one would copy the whole model to memory.
    """
    if source == TINY:
        return Precision.FLOAT32
    dtypes = set()
    for file in weight_files(find_directory(source), "model"):
        # Loading says what is wrong with a file that cannot be opened.
        with suppress(SafetensorError, OSError), safe_open(file, framework="pt") as own:
            dtypes |= {own.get_slice(name).get_dtype() for name in list(own.keys())}
    return Precision.BFLOAT16 if dtypes == {"BF16"} else Precision.FLOAT32


def _write_optimizer(
    checkpoint: ForeignCheckpoint, new: Path, base: str | None, scratch: Path
) -> None:
    source, inside = checkpoint.about.parent, new / "base"
    below = inside if inside.is_dir() else base
    try:
        policy = load_policy(new, base=below, precision=_stored_precision(below or new))
    except UnreadableSource as error:
        # The message names the temporary directory, which no longer exists.
        raise UnreadableSource(
            f"{source}: expected weights that make a model; the imported ones do not: "
            f"{str(error).replace(str(new), 'weights')}"
        ) from error
    names_by_group = decay_groups(policy.model)
    expected = {name for names in names_by_group for name in names}
    got = set(checkpoint.first_moment)
    if expected != got:
        raise UnreadableSource(
            f"{source}: expected moments of the {len(expected)} trained parameters, "
            f"got {len(got)}, without {sorted(expected - got)[:1]} and with "
            f"{sorted(got - expected)[:1]} in addition. Use a checkpoint in which "
            "every trained parameter had a gradient."
        )
    settings = {
        "lr": checkpoint.learning_rate,
        "betas": checkpoint.betas,
        "eps": checkpoint.epsilon,
        "amsgrad": False,
        "maximize": False,
    }
    groups: list[dict[str, Any]] = []
    numbered: list[str] = []
    for names in names_by_group:
        decays = {checkpoint.weight_decay[name] for name in names}
        if len(decays) > 1:
            raise UnreadableSource(
                f"{source}: expected one weight decay for matrices and one for biases "
                f"and norms, got {sorted(decays)}. Train with one value for each."
            )
        keys = list(range(len(numbered), len(numbered) + len(names)))
        numbered += names
        decay = decays.pop() if decays else 0.0
        groups.append({**settings, "weight_decay": decay, "params": keys})
    kinds = (checkpoint.first_moment, checkpoint.second_moment)
    moments = mapped(scratch, [kind[name] for name in numbered for kind in kinds])
    step = float(checkpoint.step)
    state: dict[int, dict[str, Tensor]] = {
        key: {
            "step": torch.tensor(step),
            "exp_avg": moments[2 * key],
            "exp_avg_sq": moments[2 * key + 1],
        }
        for key in range(len(numbered))
    }
    torch.save({"state": state, "param_groups": groups}, new / "optimizer.pt")
