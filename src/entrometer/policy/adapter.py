"""LoRA adapters on a base model: loaded from a directory, or fresh."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors.torch import load_file
from torch import Generator, Tensor, nn

from entrometer.errors import InvalidValue
from entrometer.policy.policy import Policy
from entrometer.policy.sources import UnreadableSource, one_line, read_json
from entrometer.policy.weights import Shapes, absent_weights, read_shapes
from entrometer.runs.locations import located, relative_source

CONFIG = "adapter_config.json"

# peft builds regular expressions from these. One with nested repeats would match for
# longer than anybody waits, so only names without any operator are taken.
_NAMES = (
    *("target_modules", "exclude_modules", "modules_to_save", "layers_pattern"),
    "target_parameters",
)
_PATTERNS = ("rank_pattern", "alpha_pattern")
_LITERAL = re.compile(r"\^?[\w.-]{1,256}")

# Settings with which the adapter is a plain product of two factors on the base, and
# those that only record how it was made.
_UNDERSTOOD = {
    *_NAMES,
    *_PATTERNS,
    *("r", "lora_alpha", "lora_dropout", "lora_bias", "bias", "use_dora"),
    *("use_rslora", "fan_in_fan_out", "layers_to_transform", "init_lora_weights"),
    *("trainable_token_indices", "ensure_weight_tying", "task_type", "peft_type"),
    *("peft_version", "auto_mapping", "base_model_name_or_path", "revision"),
    *("inference_mode", "megatron_core", "qalora_group_size", "runtime_config"),
    *("eva_config", "loftq_config"),
}
# Other initialisations take a part out of the base's weights, which the base on disk
# still has.
_STARTS = (True, False, "gaussian", "orthogonal", "eva")


def base_of(directory: Path) -> str | None:
    """Return the name or path of the model below an adapter; None if not recorded."""
    config = read_json(directory / CONFIG)
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    for name, value in (("base_model_name_or_path", base), ("revision", revision)):
        if value is not None and (not isinstance(value, str) or len(value) > 1000):
            raise UnreadableSource(
                f"{directory / CONFIG}: expected a name or a path in `{name}`, got "
                f"{shown(value)}. Name the model with --policy (in Python: `base`)."
            )
    if not base:
        return None
    # PEFT stores the commit of a hub name in a field of its own.
    if revision and not Path(base).is_dir():
        return f"{base}@{revision}"
    return located(base, directory)


def base_fields(base: str, directory: Path) -> dict[str, str | None]:
    """Return the fields of an adapter's config that name its base.

    A path is stored relative to the adapter's `directory`; `base_of` resolves it.
    """
    stored = relative_source(base, directory)
    if stored != base or "@" not in base:
        return {"base_model_name_or_path": stored, "revision": None}
    name, _, revision = base.partition("@")
    return {"base_model_name_or_path": name, "revision": revision}


def put_adapter(model: nn.Module, directory: Path) -> nn.Module:
    """Return `model` with the adapter of `directory`, which alone is then trained.

    Raises unless the file has exactly the weights of the adapter. They are not read for
    a model whose own weights are on the meta device.
    """
    file = directory / "adapter_model.safetensors"
    # No index is looked for: peft writes no shards.
    if not file.is_file():
        raise absent_weights(file)
    shapes = read_shapes([file])
    _require_plain(directory / CONFIG, shapes)
    try:
        config = LoraConfig.from_pretrained(str(directory))
        config.inference_mode = False
        # The weights are replaced below.
        config.init_lora_weights = True
        # The base may have moved since training, and peft would warn about it.
        config.base_model_name_or_path = None
        # On the meta device, so that a rank which the file does not have costs nothing;
        # peft's own switch allocates each weight before it moves it there.
        hollow = any(p.is_meta for p in model.parameters())
        with torch.device("meta"):
            adapted: nn.Module = get_peft_model(
                model, config, autocast_adapter_dtype=False, low_cpu_mem_usage=True
            )
        # Given, because the default asks the hub whether the vocabulary was resized.
        with_base = any(name.endswith(".base_layer.weight") for name in shapes)
        state = get_peft_model_state_dict(adapted, save_embedding_layers=with_base)
        reason = _misfit({n: tuple(w.shape) for n, w in state.items()}, shapes)
        # Weights of a model without values are read later, with the model's.
        if reason is None and hollow:
            return adapted
        if reason is None:
            stored = load_file(file)
            set_peft_model_state_dict(adapted, stored, low_cpu_mem_usage=True)
            _restore(adapted, stored, with_base)
            if not any(p.is_meta for p in adapted.parameters()):
                return adapted
            reason = "not every weight of the adapter is in the file"
    except Exception as error:  # peft passes on whatever its settings lead to.
        reason = one_line(error)
    raise UnreadableSource(
        f"{directory}: the adapter does not fit {type(model).__name__} "
        f"({reason}). Name the model that it was trained on as `base`."
    )


def _restore(adapted: nn.Module, stored: Mapping[str, Tensor], with_base: bool) -> None:
    """Give an adapter its stored weights, in the precision in which they are stored."""
    # PEFT has rounded them to the precision of the layers that they adapt.
    own = {p.data_ptr(): p for p in adapted.parameters() if not p.is_meta}
    state = get_peft_model_state_dict(adapted, save_embedding_layers=with_base)
    for name, held in state.items():
        if not held.is_meta and held.dtype != stored[name].dtype:
            own[held.data_ptr()].data = stored[name]


def add_adapter(
    policy: Policy, *, rank: int, std: float = 0.0, seed: int = 0, **settings: Any
) -> Policy:
    """Return the policy with a fresh adapter, which alone is then trained.

    The model is changed in place; `settings` are the adapter's `alpha` and `modules`.
    """
    generator = Generator().manual_seed(seed)
    model = put_fresh_adapter(
        policy.model, rank=rank, std=std, generator=generator, **settings
    )
    return Policy(model, policy.tokenizer, policy.precision, policy.source)


def put_fresh_adapter(
    model: nn.Module,
    *,
    rank: int,
    std: float,
    generator: Generator,
    alpha: int | None = None,
    modules: Sequence[str] | None = None,
) -> nn.Module:
    r"""Return the model with a LoRA adapter, $W + \frac{\alpha}{r} BA$, alone trained.

    The model is changed in place. $A$ is drawn with variance one over its inputs, $B$
    with standard deviation `std`; a trainer starts at 0, where half of the gradients
    vanish. $\alpha$ is twice the rank by default. `modules` are the last parts of the
    names of adapted layers, by default every linear layer but the head.
    """
    if rank < 1 or std < 0:
        raise InvalidValue(f"expected LoRA rank >= 1, std >= 0; got {rank}, {std}")
    dtype = next(model.parameters()).dtype
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        target_modules="all-linear" if modules is None else list(modules),
        task_type="CAUSAL_LM",
    )
    # PEFT draws from the global generator; its draws are replaced below.
    with torch.random.fork_rng(devices=[]):
        adapted: nn.Module = get_peft_model(model, config, autocast_adapter_dtype=False)
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if p.requires_grad:
                spread = 1 / math.sqrt(p.shape[-1]) if "lora_A" in name else std
                drawn = torch.randn(p.shape, generator=generator) * spread
                p.data = drawn.to(dtype=dtype, device=p.device)
    return adapted.eval()


def _require_plain(path: Path, shapes: Shapes) -> None:
    config = read_json(path)
    if config.get("megatron_config"):
        raise UnreadableSource(
            f"{path}: expected a plain adapter, got `megatron_config`, which has peft "
            "import a module that the file names. Remove the entry if you trust it."
        )
    kind, start = config.get("peft_type"), config.get("init_lora_weights", True)
    others = sorted(k for k, v in config.items() if v and k not in _UNDERSTOOD)
    if kind != "LORA" or others or start not in _STARTS:
        got = (
            (others or [f"init_lora_weights={start!r}"])[0] if kind == "LORA" else kind
        )
        raise UnreadableSource(
            f"{path}: expected a plain LoRA adapter, got {got}. Merge it into its base "
            "(`merge_and_unload`) and give the merged model."
        )
    # Each name is tried on each module, so a long list costs time; names beyond the
    # number of weights match nothing.
    max_names = 1000 + len(shapes)
    for name in _NAMES:
        value = config.get(name)
        if value is None or (name == "target_modules" and value == "all-linear"):
            continue
        names = value if isinstance(value, list) else [value]
        single = isinstance(value, str) and name != "layers_pattern"
        literal = all(isinstance(n, str) and _LITERAL.fullmatch(n) for n in names)
        if single or len(names) > max_names or not literal:
            raise _not_literal(path, name, value)
    for name in _PATTERNS:
        value = config.get(name) or {}
        if (
            not isinstance(value, dict)
            or len(value) > max_names
            or not all(map(_LITERAL.fullmatch, value))
            or not all(map(_is_finite, value.values()))
        ):
            raise _not_literal(path, name, value)
    for name in ("r", "lora_alpha"):
        if name in config and not _is_finite(config[name]):
            raise UnreadableSource(
                f"{path}: expected a finite number for {name}, got {config[name]!r}. "
                "Copy the file again."
            )


def _not_literal(path: Path, name: str, value: object) -> UnreadableSource:
    return UnreadableSource(
        f"{path}: expected {name} as names of modules without any pattern, got "
        f"{str(value)[:80]!r}. List the modules, each by its name."
    )


def _is_finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _misfit(expected: Shapes, got: Shapes) -> str | None:
    missing, extra = expected.keys() - got.keys(), got.keys() - expected.keys()
    if missing or extra:
        return f"missing {_listed(missing)}; extra {_listed(extra)}"
    for name, shape in expected.items():
        if shape != got[name]:
            return f"{name}: expected shape {shape}, got {got[name]}"
    return None


def _listed(names: set[str]) -> str:
    first = sorted(names)[:2]
    return f"{len(names)} weights ({', '.join(first)}, …)" if first else "none"
