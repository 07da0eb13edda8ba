"""A framework's state in the one layout that all else reads: a Trainer's checkpoint."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file
from torch import Tensor

from entrometer.importers.foreign import Foreign, Lora
from entrometer.policy.adapter import base_fields
from entrometer.policy.loading import load_policy
from entrometer.policy.optimizer_state import decay_groups
from entrometer.policy.sources import UnreadableSource, require_plain_files
from entrometer.policy.weights import lora_config
from entrometer.runs import apply_umask, seal
from entrometer.runs.atomic import naming_full_disk

_SETTINGS = ("*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
_ADAPTER, _BASE_LAYER = "base_model.model.", ".base_layer."


def write_checkpoint(found: Foreign, out: Path, *, base: str | None = None) -> Path:
    """Write `out` with its manifest, whole or not at all.

    Args:
        found: The state.
        out: A directory that is not there yet.
        base: What an adapter sits on; None has its base written into `out/base`, from
            the weights that were saved with it.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        with naming_full_disk(made):
            if found.lora is None:
                _write_model(found.about, found.weights, made)
            else:
                if base is None:
                    _write_base(found, made)
                fields = base_fields(base or str(made / "base"), out if base else made)
                _write_adapter(found.lora, found.weights, made, fields)
            _write_optimizer(found, made, base)
            state = {"global_step": found.step}
            (made / "trainer_state.json").write_text(json.dumps(state))
            apply_umask(made)
            seal(made, about={"kind": "imported checkpoint"})
        made.rename(out)
    return out


def _write_model(about: Path, weights: Mapping[str, Tensor], made: Path) -> None:
    require_plain_files(about)
    for pattern in _SETTINGS:
        for file in about.glob(pattern):
            shutil.copy(file, made / file.name)
    own = {name: weight.contiguous() for name, weight in weights.items()}
    save_file(own, made / "model.safetensors", metadata={"format": "pt"})


def _write_base(found: Foreign, made: Path) -> None:
    """The frozen weights, under the names that they had before the adapter came."""
    own = {
        name.removeprefix(_ADAPTER).replace(_BASE_LAYER, "."): weight
        for name, weight in found.weights.items()
        if "lora_" not in name
    }
    if not own:
        raise UnreadableSource(
            f"{found.about.parent}: expected the weights of the model, got those of "
            "its adapter alone. Name the model that was trained with --base."
        )
    (made / "base").mkdir()
    _write_model(found.about, own, made / "base")


def _write_adapter(
    lora: Lora,
    weights: Mapping[str, Tensor],
    made: Path,
    base: Mapping[str, str | None],
) -> None:
    config = lora_config(*lora)
    for name, value in base.items():
        setattr(config, name, value)
    config.save_pretrained(str(made))
    own = {
        name.replace(".default.weight", ".weight"): weight.contiguous()
        for name, weight in weights.items()
        if "lora_" in name
    }
    save_file(own, made / "adapter_model.safetensors", metadata={"format": "pt"})


def _write_optimizer(found: Foreign, made: Path, base: str | None) -> None:
    """`optimizer.pt`, numbered as a Trainer numbers the parameters of this model."""
    inside = made / "base"
    try:
        policy = load_policy(made, base=inside if inside.is_dir() else base)
    except UnreadableSource as error:
        # The directory that it names is gone by then.
        raise UnreadableSource(
            f"{found.about.parent}: expected weights that make a model; the imported "
            f"ones do not: {str(error).replace(str(made), 'weights')}"
        ) from error
    names = decay_groups(policy.model)
    expected, got = {n for own in names for n in own}, set(found.first_moment)
    if expected != got:
        raise UnreadableSource(
            f"{found.about.parent}: expected moments of the {len(expected)} trained "
            f"parameters, got {len(got)}, without {sorted(expected - got)[:1]} and "
            f"with {sorted(got - expected)[:1]} beside. Use a checkpoint in which "
            "every trained parameter had a gradient."
        )
    state: dict[int, dict[str, Tensor]] = {}
    groups = []
    for own in names:
        decays = {found.weight_decay[name] for name in own}
        if len(decays) > 1:
            raise UnreadableSource(
                f"{found.about.parent}: expected one weight decay for matrices and one "
                f"for biases and norms, got {sorted(decays)}."
            )
        keys = range(len(state), len(state) + len(own))
        for key, name in zip(keys, own, strict=True):
            state[key] = {
                "step": torch.tensor(float(found.step)),
                "exp_avg": found.first_moment[name].contiguous(),
                "exp_avg_sq": found.second_moment[name].contiguous(),
            }
        groups.append(
            {
                "lr": found.learning_rate,
                "betas": found.betas,
                "eps": found.epsilon,
                "weight_decay": decays.pop() if decays else 0.0,
                "amsgrad": False,
                "maximize": False,
                "params": list(keys),
            }
        )
    torch.save({"state": state, "param_groups": groups}, made / "optimizer.pt")
