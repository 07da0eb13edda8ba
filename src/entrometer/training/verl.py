"""Recording of every update of a verl actor, as `em.watch` records TRL's.

verl trains an actor in a `TrainingWorker`: its engine splits a mini-batch into
micro-batches, calls the loss with the log-probabilities and entropies of each, and
takes one optimizer step. Hooks on these two tensors see the weights of the tokens, and
one mini-batch becomes one file. Nothing here imports transformers or TRL: verl requires
an earlier transformers than the rest of this package.
"""

# Axes: B responses of a micro-batch, T response tokens, K tokens of all sequences of a
# micro-batch, prompts included.

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.errors import InvalidValue
from entrometer.runs import UpdateSettings, update_path, write_update
from entrometer.training.micro_batch import LossTables, MicroBatch
from entrometer.training.update_rows import (
    Row,
    changed_settings,
    dropout,
    make_folder,
    padding_row,
    update_batch,
    update_rows,
)

_SCORES = ("token_level_scores", "rm_scores", "token_level_rewards")
"""Columns of verl with the reward of a response, the first that is there."""

_LOSS = (
    *("loss_agg_mode", "entropy_coeff", "use_kl_loss", "kl_loss_coef", "kl_loss_type"),
    *("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c"),
    *("loss_scale_factor", "tau_pos", "tau_neg", "use_rollout_log_probs"),
    *("ppo_epochs", "ppo_mini_batch_size", "shuffle"),
)
"""Settings of verl's actor that decide the loss."""

_POLICY_LOSS = (
    *("loss_mode", "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub"),
    *("kl_cov_ratio", "ppo_kl_coef", "dro_beta"),
)
"""Settings of verl's `actor.policy_loss`."""

# The mixin stands left of an engine of verl among the bases of a class.
_AnyEngine: Any = object


def watch_verl(worker: Any, run: Path | str, *, max_tokens: int | None = None) -> Any:
    """Record every update of a verl actor to `updates/` in the directory `run`.

    Call it on every process, once, after verl made the model and set the loss: after
    `init_model` of an `ActorRolloutRefWorker`, or `set_loss_fn` of a `TrainingWorker`.
    The training itself stays the same to the bit. Every optimizer step, so every
    mini-batch of every epoch, becomes one file, which rank 0 writes.

    Args:
        worker: A `TrainingWorker` of verl with the FSDP or FSDP2 engine, or an
            `ActorRolloutRefWorker`, which has one.
        run: Directory of the run, the same on every process.
        max_tokens: Length limit of a response. By default the `response_length` of the
            worker's config, or the width of padded responses; of responses without
            padding in a `TrainingWorker`, the longest of each update.

    Returns:
        The same worker.

    Raises:
        InvalidValue: The worker trains with what cannot be recorded; it is named.
    """
    # An `ActorRolloutRefWorker` has its actor inside.
    actor = getattr(worker, "actor", None) or worker
    config = _require_recordable(actor)
    engine, kind = actor.engine, type(actor.engine)
    # A subclass made on the spot, as `watch` does: any engine is recorded where it is.
    engine.__class__ = type(f"Recorded{kind.__name__}", (_Recorded, kind), {})
    limit = max_tokens or _response_length(worker)
    engine.recorder = _VerlRecorder(engine, config, Path(run), limit)
    return worker


def _response_length(worker: Any) -> int | None:
    # Only an `ActorRolloutRefWorker` knows how responses are sampled.
    if getattr(worker, "actor", None) is None:
        return None
    return int(worker.config.rollout.response_length)


class _Recorded(_AnyEngine):  # type: ignore[misc]
    """Mixin for an engine of verl: the same updates, shown to a recorder."""

    recorder: "_VerlRecorder"

    def train_batch(self, data: Any, loss_function: Any) -> Any:
        """Run verl's step on a mini-batch, and write it."""
        from verl.utils import tensordict_utils

        # verl skips the entropy if its coefficient is 0. A file has it always; the loss
        # is shown it only if the trainer asked for it, so that it stays as it was.
        asked = bool(tensordict_utils.get(data, "calculate_entropy", False))
        tensordict_utils.assign_non_tensor(data, calculate_entropy=True)
        recorder = self.recorder
        recorder.begin()
        loss = partial(recorder.loss, loss_function, asked)
        output = super().train_batch(data, loss)
        recorder.write()
        return output


@dataclass
class _Part:
    """What one process has of an update."""

    rows: list[Row]
    width: int  #: Of the widest table of responses.
    temperatures: set[float]
    beyond: set[str]  #: What the weights of tokens do not express, by name.


class _VerlRecorder:
    """Collects the micro-batches of an update, and writes them on rank 0."""

    def __init__(self, engine: Any, config: Any, run: Path, limit: int | None) -> None:
        self.engine, self.config, self.run, self.limit = engine, config, run, limit
        self.part = _Part([], 0, set(), set())
        self._pending: tuple[LossTables, float, Any] | None = None
        self._steps = 0
        self._begun = False

    def begin(self) -> None:
        """Forget rows of an update that ended in an error."""
        self._pending, self.part = None, _Part([], 0, set(), set(dropout(self.model)))
        self._steps = _steps_taken(self.engine.optimizer)

    @property
    def model(self) -> nn.Module:
        """The model inside FSDP."""
        module: nn.Module = self.engine.module
        return module

    def loss(
        self,
        loss_function: Any,
        asked: bool,
        model_output: Mapping[str, Any],
        data: Any,
        dp_group: Any = None,
    ) -> Any:
        """Return verl's loss of a micro-batch, whose tensors have hooks."""
        self._collect()
        output = dict(model_output)
        # Hooks on the values, from which verl's loss then gets its nested tensors
        # again: gradients of a nested tensor itself would be nested too.
        flat = {name: output[name].values() for name in ("log_probs", "entropy")}
        offsets = output["log_probs"].offsets()
        for name, values in flat.items():
            output[name] = torch.nested.nested_tensor_from_jagged(values, offsets)
        if not asked:
            flat["entropy"] = output.pop("entropy").values().detach()
        # Gradients of processes are averaged; float16 training scales them. The scale
        # is that of the coming backward pass, after which the scaler may change it.
        unit = 1 / self.engine.get_data_parallel_size()
        if (scaler := getattr(self.engine, "scaler", None)) is not None:
            unit /= float(scaler.get_scale())
        tables = LossTables(flat["log_probs"], flat["entropy"])
        self._pending = (tables, unit, data)
        return loss_function(model_output=output, data=data, dp_group=dp_group)

    def _collect(self) -> None:
        """Store the rows of the last micro-batch, whose backward pass is done."""
        if self._pending is None:
            return
        (tables, unit, data), self._pending = self._pending, None
        from verl.utils import tensordict_utils

        get = partial(tensordict_utils.get, data)
        rows = update_rows(_micro_batch(tables, unit, data))
        # A group is a prompt that was sampled several times; verl numbers these.
        groups = get("uid") or [row["prompt"] for row in rows]
        for row, group in zip(rows, groups, strict=True):
            row["group"] = group
        part = self.part
        part.rows += rows
        part.width = max(part.width, _padded(data["responses"]).shape[1])
        temperature = get("temperature")
        part.temperatures.update(
            torch.as_tensor(temperature, dtype=torch.float64).flatten().tolist()
        )
        if any(get("multi_modal_inputs") or ()):
            part.beyond.add("images or other inputs besides tokens")
        if get("routed_experts") is not None:
            part.beyond.add("replayed routing of experts (router_replay)")

    def write(self) -> None:
        """Write the rows of all processes on rank 0, in the order of their prompts."""
        self._collect()
        rank, size = dist.get_rank(), dist.get_world_size()
        parts: list[Any] | None = [None] * size if rank == 0 else None
        dist.gather_object(self.part, parts)
        step = _steps_taken(self.engine.optimizer)
        # verl takes no step if the gradient is not finite.
        if parts is None or step == self._steps:
            return
        if not self._begun:
            # Here and not earlier: verl loads a checkpoint after it made the actor.
            make_folder(self.run, step - 1, keep=step == 1)
            self._begun = True
        batch = update_batch(_ordered(parts), self._settings(step, parts))
        write_update(update_path(self.run, step), batch)

    def _settings(self, step: int, parts: list[_Part]) -> UpdateSettings:
        beyond = set().union(*(part.beyond for part in parts))
        temperatures = set().union(*(part.temperatures for part in parts))
        if len(temperatures) > 1:
            beyond.add(f"temperatures from {min(temperatures)} to {max(temperatures)}")
        limit = float(self.engine.optimizer_config.clip_grad)
        return UpdateSettings(
            step=step,
            temperature=max(temperatures),
            max_tokens=self.limit or max(part.width for part in parts),
            rewards=("score",),
            reward_weights=(1.0,),
            max_grad_norm=limit if math.isfinite(limit) else 0.0,
            loss=_loss_settings(self.config),
            padding_row=padding_row(self.model),
            beyond_tokens=tuple(sorted(beyond)),
        )


def _micro_batch(tables: LossTables, unit: float, data: Any) -> MicroBatch:
    """Return a micro-batch of verl as instruments are shown it."""
    from verl.workers.utils.padding import no_padding_2_padding

    def of_responses(flat: Float[Tensor, " K"]) -> Float[Tensor, "B T"]:
        table: Tensor = no_padding_2_padding(flat, data)
        return table

    prompts, responses = data["prompts"], _padded(data["responses"])
    if prompts.is_nested:
        lengths = prompts.offsets().diff()
        prompts = _padded(prompts)
        places = torch.arange(prompts.shape[1], device=prompts.device)
        prompt_mask = (places < lengths[:, None]).long()
    else:
        prompt_mask = data["attention_mask"][:, : prompts.shape[1]]
    count = len(responses)
    # Numbered when the rows of all processes are there.
    unknown = torch.zeros(count, dtype=torch.int64)
    score = next((data[name] for name in _SCORES if name in data), None)
    S, H = of_responses(tables.S), of_responses(tables.H)
    rewards = S.new_full((count,), math.nan)
    response_mask = _padded(data["response_mask"]).long()
    optional = {
        name: _padded(data[column])
        for name, column in (
            ("S_ref", "ref_log_prob"),
            ("S_engine", "rollout_log_probs"),
        )
        if column in data
    }
    return MicroBatch(
        row=unknown,
        group=unknown,
        prompt_ids=prompts,
        prompt_mask=prompt_mask,
        response_ids=responses,
        response_mask=response_mask,
        rewards=(rewards if score is None else _padded(score).sum(dim=-1))[:, None],
        # verl has one mask for the output of tools and for tokens that its rejection
        # sampling (`rollout_rs`) drops: both are taken for context.
        written_mask=response_mask,
        advantage=_padded(data["advantages"]),
        S=S,
        S_old=_padded(data["old_log_probs"]),
        H=H,
        **{name: of_responses(x) for name, x in tables.weights(unit).items()},
        **optional,
    )


def _padded(table: Tensor) -> Tensor:
    # verl has tables of one width, or nested ones.
    return table.to_padded_tensor(0) if table.is_nested else table


def _ordered(parts: list[_Part]) -> list[Row]:
    """Return the rows of all processes by group, both numbered from 0."""
    rows = [row for part in parts for row in part.rows]
    names = {name: i for i, name in enumerate(dict.fromkeys(r["group"] for r in rows))}
    rows.sort(key=lambda row: names[row["group"]])
    return [
        row | {"row": i, "group": names[row["group"]]} for i, row in enumerate(rows)
    ]


def _steps_taken(optimizer: torch.optim.Optimizer) -> int:
    # From the optimizer's state, which verl restores when it resumes a training. Of one
    # parameter, because each may be read from a GPU.
    state = next((state for state in optimizer.state.values() if state), {"step": 0})
    return int(state["step"])


def _loss_settings(config: Any) -> str:
    """Return verl, its version, and its settings of the loss."""
    policy_loss = changed_settings(config.policy_loss, _POLICY_LOSS, always=1)
    changed = changed_settings(config, _LOSS, always=1)
    return f"verl {version('verl')}: {policy_loss}, {changed}"


def _require_recordable(actor: Any) -> Any:
    """Return the config of the actor; raise by name for what cannot be recorded."""
    engine = getattr(actor, "engine", None)
    if engine is None or not hasattr(actor, "train_batch"):
        raise InvalidValue(
            "expected a TrainingWorker of verl, or an ActorRolloutRefWorker with its "
            f"actor, got a {type(actor).__name__}; watch after init_model"
        )
    if isinstance(engine, _Recorded):
        raise InvalidValue(
            f"expected an actor that is not watched yet, got {type(engine).__name__}; "
            "call watch_verl once"
        )
    from verl.workers.engine.fsdp.transformer_impl import (
        FSDPEngineWithLMHead,
        FSDPEngineWithValueHead,
    )
    from verl.workers.utils.losses import ppo_loss

    # Sharded vocabularies, pipelines and sequences have other gradients at the tables;
    # a quantized weight has another gradient than the loss.
    strategy = getattr(engine.engine_config, "strategy", None)
    if (
        not isinstance(engine, FSDPEngineWithLMHead)
        or isinstance(engine, FSDPEngineWithValueHead)
        or strategy not in ("fsdp", "fsdp2")
    ):
        raise _refusal(
            f"the engine {type(engine).__name__} of strategy {strategy!r}",
            "an actor with strategy 'fsdp' or 'fsdp2'",
        )
    if (size := engine.ulysses_sequence_parallel_size) > 1:
        raise _refusal(
            f"ulysses_sequence_parallel_size={size}", "ulysses_sequence_parallel_size=1"
        )
    if getattr(engine, "_qat_enabled", False):
        raise _refusal("qat.enable=True", "training without quantization")
    optimizer = type(engine.optimizer)
    if not issubclass(optimizer, torch.optim.Adam | torch.optim.AdamW):
        raise _refusal(f"the optimizer {optimizer.__name__}", "AdamW of torch.optim")
    loss = actor.loss_fn
    function = getattr(loss, "func", loss)
    if function is not ppo_loss:
        name = getattr(function, "__name__", function)
        raise _refusal(f"the loss {name}", "verl's ppo_loss, without distillation")
    return loss.keywords["config"]


def _refusal(got: str, expected: str) -> InvalidValue:
    return InvalidValue(
        f"expected {expected}, got {got}, whose token weights cannot be recorded; "
        "change it, or train without watch_verl"
    )
