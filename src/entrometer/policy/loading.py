"""A policy from a name, a model directory or an adapter directory."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as progress

from entrometer.calculus.sharded import rows_of, sum_over
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of, put_adapter
from entrometer.policy.attention import ATTENTION
from entrometer.policy.mixed import require_adapter
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, as_device, as_precision, ready
from entrometer.policy.sharding import allocate, fill, shard
from entrometer.policy.sources import (
    TINY,
    SourceNotFound,
    UnreadableSource,
    find_directory,
    one_line,
    read_json,
    require_plain_files,
)
from entrometer.policy.stored_rows import stored_rows
from entrometer.policy.tiny import tiny_policy
from entrometer.policy.weights import hollow as hollow_model
from entrometer.policy.weights import (
    read_shapes,
    require_filled,
    skeleton,
    weight_files,
)

logger = logging.getLogger(__name__)

_CHUNK = 2**20  # Values that are checked at once.


def load_policy(
    source: str | Path,
    *,
    base: str | Path | None = None,
    precision: Precision | str = Precision.FLOAT32,
    device: torch.device | str = "cpu",
    mesh: DeviceMesh | None = None,
) -> Policy:
    """Load a policy, in evaluation mode, from safetensors, without running its code.

    All parameters of a model are trained; with an adapter, only those of the adapter.

    Args:
        source: The built-in "tiny"; a directory of a model or of a LoRA adapter; the
            name of a complete model in the cache; or "owner/name@<40 hex digits>".
        base: Model below an adapter, if not the one that the adapter recorded. A
            tokenizer that `source` lacks is taken from here too.
        precision: Precision to compute in. Stored weights are widened or rounded to it;
            with `mixed`, which needs an adapter, the frozen ones to bfloat16.
        device: Device to compute on.
        mesh: Group of processes that share the policy: each reads and holds some rows
            of every parameter. All of them have to call this.
    """
    precision, device = as_precision(precision), as_device(device)
    if precision is Precision.MIXED:
        # Before a large model is read.
        adapted = source != TINY and _is_adapter(find_directory(source))
        require_adapter(adapted, str(source))
    model = _load_model(source, base, precision, hollow=mesh is not None)
    # Tensors without values cannot be moved.
    model = ready(model, precision, device if mesh is None else None)
    policy = Policy(model, load_tokenizer(source, base), precision, str(source))
    if mesh is not None:
        policy = _in_shards(policy, source, base, device, mesh)
    _require_finite(policy)
    return policy


def _in_shards(
    policy: Policy,
    source: str | Path,
    base: str | Path | None,
    device: torch.device,
    mesh: DeviceMesh,
) -> Policy:
    """Return the policy divided over a mesh, with the weights of its files."""
    hollow = any(p.is_meta for p in policy.model.parameters())
    tied: Any = policy.base.all_tied_weights_keys
    policy = shard(policy, mesh)
    allocate(policy, device, keep=not hollow)
    if hollow:
        with stored_rows(_weight_files(source, base)) as stored:
            fill(policy, stored)
            stored.buffers(policy.model)
            stored.require_all_read(list(tied))
    return policy


def _weight_files(source: str | Path, base: str | Path | None) -> list[Path]:
    """Return the files of a model, and of the adapter on it."""
    directory = find_directory(source)
    if not _is_adapter(directory):
        return weight_files(directory, "model")
    below = base or base_of(directory)
    assert below is not None, "the model below the adapter was found"
    return [*_weight_files(below, None), directory / "adapter_model.safetensors"]


def _is_adapter(directory: Path) -> bool:
    return (directory / ADAPTER_CONFIG).is_file()


def _load_model(
    source: str | Path,
    base: str | Path | None,
    precision: Precision,
    *,
    hollow: bool,
) -> nn.Module:
    """Return the model; if `hollow`, with parameters on the meta device."""
    if source == TINY:
        return tiny_policy().model
    directory = find_directory(source)
    require_plain_files(directory)
    if not _is_adapter(directory):
        return _load_weights(directory, precision, hollow)
    return put_adapter(_load_base(directory, base, precision, hollow), directory)


def _load_base(
    directory: Path, base: str | Path | None, precision: Precision, hollow: bool
) -> nn.Module:
    base = base or base_of(directory)
    if base is None:
        raise SourceNotFound(
            f"{directory / ADAPTER_CONFIG}: the adapter does not name its model. Name "
            "it with --policy (in Python: `base`)."
        )
    try:
        if base != TINY and _is_adapter(find_directory(base)):
            raise UnreadableSource(
                f"{directory}: its base {base} is an adapter itself. Merge that one "
                "(`merge_and_unload`), save it, name it by --policy (Python: `base`)."
            )
        return _load_model(base, None, precision, hollow=hollow)
    except (SourceNotFound, UnreadableSource) as error:
        raise type(error)(
            f"{directory}: the base of this adapter cannot be loaded. {error} Name "
            "where it is now with --policy (in Python: `base`)."
        ) from error


def _load_weights(directory: Path, precision: Precision, hollow: bool) -> nn.Module:
    config = read_json(directory / "config.json")
    if "quantization_config" in config:
        raise UnreadableSource(
            f"{directory / 'config.json'}: the weights are quantised, and no precision "
            "can be promised for them. Load the model they were made from."
        )
    # It could name another file than the one that the content key hashes.
    if config.get("transformers_weights") is not None:
        raise UnreadableSource(
            f"{directory / 'config.json'}: expected weights in model.safetensors, got "
            "`transformers_weights`. Save the model again with `save_pretrained`."
        )
    # Transformers ignores a generation config that it cannot read, and then lacks its
    # EOS tokens.
    if (directory / "generation_config.json").exists():
        read_json(directory / "generation_config.json")
    shapes = read_shapes(weight_files(directory, "model"))
    with _quiet_transformers():
        require_filled(directory, skeleton(directory, len(shapes)), shapes)
        if hollow:
            attention = _attention(config)
            model = hollow_model(directory, precision.frozen_dtype, attention)
        else:
            model = _from_transformers(directory, config, precision)
    if "auto_map" in config:
        _warn_not_run(directory / "config.json")
    return model


def _from_transformers(
    directory: Path, config: Mapping[str, Any], precision: Precision
) -> nn.Module:
    automatic: Any = AutoModelForCausalLM
    try:
        model, info = automatic.from_pretrained(
            directory,
            dtype=precision.frozen_dtype,
            # Given, so that nothing in the config can choose another.
            attn_implementation=_attention(config),
            output_loading_info=True,
            # Only so that mismatches are listed: they are refused below.
            ignore_mismatched_sizes=True,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    except Exception as error:  # Transformers passes on whatever a file leads to.
        raise UnreadableSource(
            f"{directory}: transformers cannot load it ({one_line(error)}). Check that "
            "config.json and the weights are of the same causal language model."
        ) from error
    # Transformers draws missing weights at random, with no more than a warning.
    kinds = {
        "missing_keys": "missing",
        "unexpected_keys": "unexpected",
        "mismatched_keys": "of another shape",
    }
    wrong = {kinds[key]: sorted(map(str, info[key])) for key in kinds if info[key]}
    if wrong:
        listed = "; ".join(f"{len(v)} {k} ({v[0]})" for k, v in wrong.items())
        raise UnreadableSource(
            f"{directory}: expected every weight of {type(model).__name__} and no "
            f"other, got {listed}. Save the model again with `save_pretrained`, or "
            "check that config.json belongs to it."
        )
    return cast(nn.Module, model)


def _require_finite(policy: Policy) -> None:
    wrong = [
        name
        for name, parameter in policy.model.named_parameters()
        # In chunks: `isfinite` takes more memory than the values, which may be mapped.
        for chunk in rows_of(parameter.detach()).flatten().split(_CHUNK)
        if not chunk.isfinite().all()
    ]
    # All processes of a group raise, or those that do not would wait for the others.
    found = sum_over(policy.mesh, torch.tensor(len(wrong), device=policy.device))
    if found:
        raise UnreadableSource(
            f"{policy.source}: expected finite weights, got NaN or infinity in "
            f"{wrong[0] if wrong else 'rows of another process'}. Use a checkpoint "
            "from before training diverged, or a wider precision."
        )


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Show no progress bars, and pass on the log only if nothing is raised."""
    # An error is one line, and contains what the warnings before it would say.
    bars = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    logger = logging.getLogger("transformers")
    handler = BufferingHandler(capacity=sys.maxsize)
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before
        if bars:
            progress.enable_progress_bar()
    # Each message once: the model was built on the meta device before it was loaded.
    for record in {record.getMessage(): record for record in handler.buffer}.values():
        logger.handle(record)


def _warn_not_run(path: Path) -> None:
    text = "names Python code of its own, which is not run; transformers' class is used"
    logger.warning("%s: %s", path, text)


def _attention(config: Mapping[str, Any]) -> str:
    # The fused kernels can neither cap nor have sinks. A saved config leaves out
    # defaults, and Gemma2 caps by default.
    capped = config.get("attn_logit_softcapping") is not None
    ours = capped or config.get("model_type") in ("gemma2", "gpt_oss")
    return ATTENTION if ours else "sdpa"


def load_tokenizer(source: str | Path, base: str | Path | None) -> Any:
    """Return the tokenizer of a model or adapter, or that of its base."""
    if source == TINY:
        return tiny_policy().tokenizer
    directory = find_directory(source)
    if not (directory / "tokenizer_config.json").is_file():
        if base is None and _is_adapter(directory):
            base = base_of(directory)
        if base is None:
            raise SourceNotFound(
                f"{directory / 'tokenizer_config.json'}: no such file, so there is no "
                "tokenizer. Save it with the model, or name that model as `base`."
            )
        return load_tokenizer(base, None)
    require_plain_files(directory)
    if "auto_map" in read_json(directory / "tokenizer_config.json"):
        _warn_not_run(directory / "tokenizer_config.json")
    try:
        return AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the tokenizers' Rust is no Exception.
        raise UnreadableSource(
            f"{directory}: transformers cannot load its tokenizer ({one_line(error)}). "
            "Copy the tokenizer's files again."
        ) from error
