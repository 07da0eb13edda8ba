"""Mistakes in paths and settings, found before torch is imported.

Everything here is checked again where it is used; this module only says it sooner.
"""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from entrometer.api.remedies import require_names
from entrometer.errors import InvalidValue
from entrometer.experiments.config import SAMPLING_PRECISIONS, CheckpointConfig
from entrometer.runs import UpdateBatch, read_update, steps_taken, update_path
from entrometer.runs.locations import located
from entrometer.runs.untrusted import read_json
from entrometer.tasks import Task, TaskWithTool, task
from entrometer.tasks.own import OWN, Own, reward_function
from entrometer.tasks.own_tool import reply_function
from entrometer.tasks.tool import refuse_tool

_NUMBERED = re.compile(r"checkpoint-(\d{1,18})").fullmatch
_WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json"),
    "adapter_model.safetensors",
)
_LEAST_PROMPTS = 8
_TEMPLATES = ("chat_template.jinja", "chat_template.json")


def preflight(
    config: CheckpointConfig,
    *,
    of_steps: bool = True,
    grades: bool = False,
    elsewhere: bool = False,
) -> None:
    """Raise `InvalidValue` for a mistake that files and settings alone show.

    `of_steps`: the experiment takes optimizer steps.
    `grades`: it needs the rewards of fresh responses.
    `elsewhere`: workers run it, on devices that this machine need not have.
    """
    for path in map(Path, config.checkpoints):
        _require_checkpoint(path, config, needs_optimizer=of_steps)
    if not elsewhere:
        _require_device(config.device)
    _require_interventions(config)
    judge = task(config.task, **config.task_settings())
    if isinstance(judge, Own):
        if config.tool:
            reply_function(config.tool)
        if config.reward:
            reward_function(config.reward)
        elif grades:
            raise InvalidValue(
                "expected a reward function, which grades responses to your own "
                "prompts, got none; give --reward module:function"
            )
        _require_prompts(config, judge)
    elif config.tool:
        raise InvalidValue(
            f"expected --tool with prompts of your own alone, got the task "
            f"{config.task!r}, which has its own tool or none; leave out --tool"
        )
    if config.sampler is not None and config.sampler not in SAMPLING_PRECISIONS:
        refuse_tool(judge, config.sampler)
    for path in map(Path, config.checkpoints):
        _require_updates(path, config, judge)


def require_model(path: Path) -> None:
    """Raise if a directory holds neither a model nor an adapter."""
    names = ("adapter_config.json", "config.json")
    if not any((path / name).is_file() for name in names):
        raise InvalidValue(
            f"expected a model or an adapter in {path}, got neither config.json nor "
            f"adapter_config.json; name a directory checkpoint-N{_inside(path)}"
        )


def _require_checkpoint(
    path: Path, config: CheckpointConfig, *, needs_optimizer: bool
) -> None:
    require_model(path)
    if not any((path / name).is_file() for name in _WEIGHTS):
        raise InvalidValue(
            f"expected weights in {path}, got none of {', '.join(_WEIGHTS)}; copy the "
            "whole checkpoint again, or convert it with `entrometer import`"
        )
    if needs_optimizer and not (path / "optimizer.pt").is_file():
        raise InvalidValue(
            f"expected AdamW's state in {path / 'optimizer.pt'}, got no such file; "
            "train without save_only_model, or convert a sharded checkpoint with "
            "`entrometer import`"
        )
    adapted = (path / "adapter_config.json").is_file()
    if config.precision == "mixed" and not adapted:
        raise InvalidValue(
            "expected an adapter for --precision mixed, which holds frozen weights in "
            f"bfloat16, got the model {path}, whose parameters are all trained; leave "
            "--precision out"
        )
    if adapted and config.policy is None:
        base = read_json(path / "adapter_config.json").get("base_model_name_or_path")
        # A name is looked up in the cache when the model is loaded.
        named = base if isinstance(base, str) and base[:1] in "/.~" else None
        if named is not None and not _base(named, path).is_dir():
            raise InvalidValue(
                f"expected the base model of the adapter {path} in {base}, got no such "
                "directory; name its place with --policy"
            )


def _inside(path: Path) -> str:
    numbers = (_NUMBERED(p.name) for p in path.glob("checkpoint-*"))
    found = sorted(int(match[1]) for match in numbers if match)
    # The last one but one: training recorded no update after the last.
    return f", such as {path / f'checkpoint-{found[-2:][0]}'}" if found else ""


def _base(name: str, adapter: Path) -> Path:
    # A relative path is from the adapter, as `entrometer import` writes it.
    return Path(located(name, adapter)).expanduser()


def _require_device(device: str) -> None:
    if device in ("auto", "cpu"):
        return
    build = metadata.version("torch").partition("+")[2]
    if device.startswith("cuda") and build == "cpu":
        raise _no_device(device, f"torch {metadata.version('torch')} is without CUDA")
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise _no_device(device, (str(error).splitlines() or [""])[0]) from error


def _no_device(device: str, why: str) -> InvalidValue:
    return InvalidValue(
        f"expected a device of this machine, got {device!r} ({why}); give --device "
        "cpu, or leave it out"
    )


def _require_interventions(config: CheckpointConfig) -> None:
    texts: tuple[str, ...] = getattr(config, "interventions", ())
    if not texts:
        return
    require_names(texts)
    # This imports torch, but not the libraries of models.
    from entrometer.interventions import intervention

    for text in texts:
        intervention(text)


def _require_prompts(config: CheckpointConfig, judge: Own) -> None:
    problems = judge.problems(config.split, config.problems)
    if len(problems) < _LEAST_PROMPTS:
        raise InvalidValue(
            f"expected at least {_LEAST_PROMPTS} prompts, over which errors are "
            f"estimated, got {len(problems)}; add some with --prompts-file"
        )
    if not any(p.messages for p in problems):
        return
    for path in map(Path, config.checkpoints):
        places = [path, *_bases(path, config)]
        if not all(place.is_dir() for place in places):
            # A name of the hub: its template is looked for when the model is loaded.
            return
        if not any(_has_template(place) for place in places):
            raise InvalidValue(
                "expected a tokenizer with a chat template, which prompts of messages "
                f"need, got none in {path}; give prompts as text, or add a template"
            )


def _bases(path: Path, config: CheckpointConfig) -> Iterator[Path]:
    if config.policy is not None:
        yield Path(config.policy).expanduser()
    elif (path / "adapter_config.json").is_file():
        base = read_json(path / "adapter_config.json").get("base_model_name_or_path")
        yield _base(str(base), path)


def _has_template(place: Path) -> bool:
    if any((place / name).is_file() for name in _TEMPLATES):
        return True
    file = place / "tokenizer_config.json"
    return file.is_file() and bool(read_json(file).get("chat_template"))


def _require_updates(path: Path, config: CheckpointConfig, judge: Task) -> None:
    updates: tuple[str, ...] = getattr(config, "updates", ())
    sampled = [u for u in updates if u.startswith("sampled")]
    if sampled and config.task == OWN and not config.reward:
        raise InvalidValue(
            f"expected a reward function for the fresh responses of {sampled[0]}, got "
            "none; give --reward module:function, or measure a checkpoint whose update "
            "was recorded"
        )
    step = steps_taken(path)
    if "recorded" not in updates or step is None:
        return
    file = update_path(path.parent, step + 1)
    if not file.is_file():
        others = any(file.parent.glob("step-*.parquet"))
        raise InvalidValue(
            f"expected the batch that training recorded after {path} in {file}, got no "
            "such file; give --updates sampled-1"
            + " with --reward module:function" * (config.task == OWN)
            + ", or train with the recorder"
            + ", or name an earlier checkpoint" * others
        )
    batch = read_update(file)
    temperature = batch.settings.temperature
    if temperature != config.temperature:
        raise InvalidValue(
            f"{file}: expected temperature={temperature}, with which the batch was "
            f"sampled, got {config.temperature}; give --temperature {temperature}"
        )
    _require_vocabulary(path, file, batch)
    if batch.written is not None and not isinstance(judge, TaskWithTool):
        raise InvalidValue(
            f"{file}: expected a task whose tool replies, because a tool wrote part of "
            f"the recorded responses, got the task {judge.name!r}, whose fresh "
            "responses would be other ones; give "
            + ("--tool module:function" if judge.name == OWN else "a --task with one")
        )


def _require_vocabulary(path: Path, file: Path, batch: UpdateBatch) -> None:
    if not (path / "config.json").is_file():
        return
    content: dict[str, Any] = read_json(path / "config.json")
    inner = content.get("text_config")
    size = content.get("vocab_size", (inner or {}).get("vocab_size"))
    most = max(int(t.max(initial=0)) for t in batch.response_tokens)
    if isinstance(size, int) and most >= size:
        raise InvalidValue(
            f"expected token ids below {size}, the vocab_size of {path}, in {file}, "
            f"got {most}; the update is of another model or tokenizer"
        )
