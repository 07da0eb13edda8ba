"""Instruments that observe a GRPO trainer, and the mixin that calls them."""

# Axes: B responses of a micro-batch, T response tokens.

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback

from entrometer.errors import InvalidValue
from entrometer.policy import Policy, Precision
from entrometer.training.micro_batch import LossTables, MicroBatch
from entrometer.training.processes import AnyTrainer
from entrometer.training.trackers import DropUndefined, without_host_name


class Instrument:
    """Observes the updates of a trainer. Override the hooks that are needed.

    Metrics that a hook returns are logged with the trainer's own.
    """

    def attach(self, trainer: Any) -> None:
        """Called before the first step, with model and optimizer on their devices."""

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Called after the backward pass of each micro-batch."""

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Called after the last backward pass of an update, before clipping."""
        return {}

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Called after the optimizer's step, before logging and saving."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return what to store in a checkpoint, as JSON-compatible values."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, when a run is resumed."""


class Observed(AnyTrainer):  # type: ignore[misc]
    """Mixin for a `GRPOTrainer`: the same training to the bit, shown to instruments."""

    instruments: tuple[Instrument, ...] = ()

    asked: Sequence[Mapping[str, Any]] = ()
    """Rows of the training set to which responses were sampled last."""

    def observe(self, instruments: Sequence[Instrument]) -> None:
        """Begin to show updates to instruments; once, before training."""
        require_tables(self)
        self.instruments = tuple(instruments)
        self._rewards: Tensor | None = None
        self._pass: _LossPass | None = None
        self.add_callback(_Hooks(self))
        # The trackers are in this list already and callbacks run in its order, so
        # `add_callback` would come too late to take undefined values from them.
        self.callback_handler.callbacks.insert(0, DropUndefined())

    def note(self, metrics: Mapping[str, float]) -> None:
        """Log values with the metrics of the current step."""
        # TRL's own buffer: `log` writes the means of these lists and clears them.
        for name, value in metrics.items():
            self._metrics["train"][name].append(value)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        # The only place where TRL has the rewards of each function before they are
        # summed into an advantage.
        self._rewards = super()._calculate_rewards(*args, **kwargs)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.asked = inputs
        output = super()._generate_and_score_completions(inputs)
        rewards = self._rewards
        assert rewards is not None
        # TRL gathered the rewards of all processes, in the order of their ranks. It
        # shuffles and splits every column returned here, so `row` finds the place.
        first = self.accelerator.process_index * len(inputs)
        row = torch.arange(first, first + len(inputs), device=rewards.device)
        return output | {"row": row, "rewards": rewards[row]}

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        S, H, auxiliary = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        # TRL also calls this without gradients, for the sampling policy and for the
        # lookahead pass; the forward pass of the loss is the one with gradients.
        if torch.is_grad_enabled():
            self._pass = _LossPass(S, H)
        return S, H, auxiliary

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if self.model.training:
            assert self._pass is not None
            self._pass.inputs = inputs
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run TRL's step on a micro-batch, then call the instruments."""
        loss = super().training_step(*args, **kwargs)
        assert self._pass is not None
        micro, self._pass = self._pass.micro_batch(self), None
        for instrument in self.instruments:
            instrument.micro_step(self, micro)
        # True on the last micro-batch of an update, where gradients are complete.
        if self.accelerator.sync_gradients:
            for instrument in self.instruments:
                self.note(instrument.update(self, self.state.global_step + 1))
        return loss


class Instrumented(Observed):
    """Mixin for a `GRPOTrainer` that is made with its instruments.

        class Trainer(Instrumented, GRPOTrainer): ...

        trainer = Trainer(..., instruments=[Recorder("runs/mine"), NoiseScale()])

    TRL shuffles each window of responses; this restores the order of the prompts, so
    that a micro-batch holds complete prompt groups.
    """

    _buffered_inputs: Any

    def __init__(
        self, *args: Any, instruments: Sequence[Instrument] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.observe(instruments)
        callbacks = self.callback_handler.callbacks
        callbacks[:] = map(without_host_name, callbacks)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        # TRL fills `_buffered_inputs` once per window and shuffles it, which mixes
        # groups within a micro-batch. Sorting the buffer once leaves the rest to TRL.
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training or self._buffered_inputs is before:
            return inputs
        self._buffered_inputs = _in_order(self._buffered_inputs)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]


class _Hooks(TrainerCallback):
    """Calls the instruments at the events that a trainer reports to callbacks."""

    def __init__(self, trainer: Observed) -> None:
        self.trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        for instrument in self.trainer.instruments:
            instrument.attach(self.trainer)

    def on_step_end(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        for instrument in self.trainer.instruments:
            metrics = instrument.updated(self.trainer, state.global_step)
            self.trainer.note(metrics)


def _in_order(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return batches of the same size with all rows sorted by their index."""
    columns = {k: [b[k] for b in batches] for k in batches[0]}
    order = torch.cat(columns["row"]).argsort()
    size = len(columns["row"][0])

    def batch(column: list[Any], i: int) -> Any:
        first = column[0]
        if isinstance(first, list):
            rows = [x for part in column for x in part]
            return [rows[j] for j in order[i * size : (i + 1) * size].tolist()]
        if not isinstance(first, Tensor) or first.ndim == 0:
            return first
        return torch.cat(column)[order[i * size : (i + 1) * size]]

    return [{k: batch(v, i) for k, v in columns.items()} for i in range(len(batches))]


def counted_tokens(inputs: Mapping[str, Any]) -> Int[Tensor, "B T"]:
    """Return 1 on the tokens of a micro-batch that the loss counts."""
    # The output of a tool is part of a response, and the policy did not write it.
    mask: Tensor = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    return mask


class _LossPass(LossTables):
    """The tables of TRL's loss on a micro-batch, with the inputs of that loss."""

    inputs: Mapping[str, Any]

    def micro_batch(self, trainer: Any) -> MicroBatch:
        """Return what instruments are shown, after the backward pass."""
        inputs, scaler = self.inputs, trainer.accelerator.scaler
        # Gradients of processes are averaged; float16 training scales them.
        unit = 1 / trainer.accelerator.num_processes
        unit /= 1.0 if scaler is None else float(scaler.get_scale())
        advantage = inputs["advantages"]
        S_old = inputs.get("old_per_token_logps")
        return MicroBatch(
            row=inputs["row"],
            group=inputs["row"] // trainer.num_generations,
            prompt_ids=inputs["prompt_ids"],
            prompt_mask=inputs["prompt_mask"],
            response_ids=inputs["completion_ids"],
            response_mask=counted_tokens(inputs),
            rewards=inputs["rewards"],
            advantage=advantage if advantage.ndim == 2 else advantage[:, None],
            S=self.S,
            S_old=self.S if S_old is None else S_old,
            H=self.H,
            S_ref=inputs.get("ref_per_token_logps"),
            S_engine=inputs.get("sampling_per_token_logps"),
            # TRL's name for it also where a `rollout_func` gave it as `env_mask`.
            written_mask=inputs.get("tool_mask"),
            **self.weights(unit),
        )


def require_tables(trainer: Any) -> None:
    """Raise if the trainer's loss does not compute S and H."""
    if getattr(trainer.args, "use_liger_kernel", False):
        raise InvalidValue(
            "expected log-probabilities and entropies of every token, got "
            "use_liger_kernel=True, which computes neither; turn it off"
        )


def trained_policy(trainer: Any, user: str) -> Policy:
    """Return the trainer's model, shared, as the passes take it.

    `user` is the instrument or table that needs it, for error messages.
    """
    processing = trainer.processing_class
    return Policy(
        model=trainer.model,
        # A processor of images holds the tokenizer; otherwise it is the tokenizer.
        tokenizer=getattr(processing, "tokenizer", processing),
        precision=trained_precision(trainer.model, user),
        source=trainer.model.config._name_or_path,
    )


def trained_precision(model: nn.Module, user: str) -> Precision:
    """Return the precision of the weights; raise if `Precision` does not have it."""
    dtype = next(model.parameters()).dtype
    for precision in Precision:
        if precision.dtype == dtype:
            return precision
    raise InvalidValue(
        f"{user}: expected weights in one of {', '.join(Precision)}, got {dtype}; load "
        f"the model in float32 or bfloat16, or leave {user} out"
    )


def require_complete_parameters(trainer: Any, instrument: str) -> None:
    """Raise if a process holds only shards of the parameters and gradients."""
    kind = str(getattr(trainer.accelerator.distributed_type, "value", "NO"))
    sharded = any(isinstance(p, DTensor) for p in trainer.model.parameters())
    if sharded or not (kind == "NO" or kind.startswith("MULTI_")):
        raise InvalidValue(
            f"{instrument}: expected every process to hold complete parameters, got "
            f"{'shards' if sharded else kind}; train on one process or with data "
            f"parallelism (DDP), or leave {instrument} out"
        )
