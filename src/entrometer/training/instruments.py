"""What may watch a GRPO trainer at work, and the mixin that lets it."""

# Axes: B responses of a micro-batch, P prompt tokens, T response tokens, F rewards.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import TrainerCallback

from entrometer.errors import InvalidValue
from entrometer.training.trackers import OnlyNumbers, without_machine


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """What one forward and backward of the trainer saw, detached, on its device."""

    row: Int[Tensor, " B"]
    """Place in the generation window, over all processes: groups are runs of it."""

    group: Int[Tensor, " B"]
    """Prompt group in the window: the responses that share a baseline."""

    prompt_ids: Int[Tensor, "B P"]
    """Prompts, padded on the left."""

    prompt_mask: Int[Tensor, "B P"]
    """1 on prompt tokens."""

    response_ids: Int[Tensor, "B T"]
    """Responses, padded on the right."""

    response_mask: Int[Tensor, "B T"]
    """1 on the tokens that the loss counts."""

    rewards: Float[Tensor, "B F"]
    """What each reward function gave; NaN where it did not judge."""

    advantage: Float[Tensor, "B _"]
    """Of each response, or of each of its tokens."""

    S: Float[Tensor, "B T"]
    """Log-probability of each token, by the policy that is being updated."""

    S_old: Float[Tensor, "B T"]
    """The same by the policy that sampled; equal to S where they are one."""

    H: Float[Tensor, "B T"]
    """Entropy of each next-token distribution, in nats."""

    alpha: Float[Tensor, "B T"] | None = None
    r"""$-\partial L/\partial S$ up to a constant, where an intervention gives the loss;
    None where it is TRL's."""


class Instrument:
    """Watches the updates of a trainer; every hook may stay as it is.

    What the hooks return is logged with the trainer's own metrics.
    """

    def attach(self, trainer: Any) -> None:
        """Before the first step: model and optimizer are where they will be used."""

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """After the backward of a micro-batch."""

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """After the last backward of an update, before clipping and the optimizer."""
        return {}

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        """After the optimizer moved the weights, before logging and saving."""
        return {}

    def state(self) -> dict[str, Any]:
        """What it has to remember over a restart, as JSON can hold it."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


# Left of a trainer among the bases, so that `super()` is that trainer.
_Trainer: Any = object


class Instrumented(_Trainer):  # type: ignore[misc]
    """Mixin for a `GRPOTrainer`: the same training, watched by instruments.

        class Trainer(Instrumented, GRPOTrainer): ...

        trainer = Trainer(..., instruments=[Recorder("runs/mine"), NoiseScale()])

    A window of responses is put back in the order of its prompts after TRL shuffles
    it, so that a micro-batch holds whole prompt groups.
    """

    _buffered_inputs: Any

    def __init__(
        self, *args: Any, instruments: Sequence[Instrument] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self.args, "use_liger_kernel", False):
            raise InvalidValue(
                "expected log-probabilities and entropies of every token, got "
                "use_liger_kernel=True, which hides them; turn it off"
            )
        self.instruments = tuple(instruments)
        self._rewards: Tensor | None = None
        self._tables: tuple[Tensor, Tensor] | None = None
        self._micro: MicroBatch | None = None
        self.add_callback(_Hooks(self))
        # Trackers are there already, and callbacks are called in turn.
        callbacks = self.callback_handler.callbacks
        callbacks[:] = [OnlyNumbers(), *map(without_machine, callbacks)]

    def note(self, metrics: Mapping[str, float]) -> None:
        """Log these with the metrics of the current step."""
        for name, value in metrics.items():
            self._metrics["train"][name].append(value)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        self._rewards = super()._calculate_rewards(*args, **kwargs)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        rewards = self._rewards
        assert rewards is not None
        # Rewards were gathered over processes, in the order of their ranks.
        first = self.accelerator.process_index * len(inputs)
        row = torch.arange(first, first + len(inputs), device=rewards.device)
        return output | {"row": row, "rewards": rewards[row]}

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training or self._buffered_inputs is before:
            return inputs
        self._buffered_inputs = _in_order(self._buffered_inputs)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        S, H, auxiliary = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if torch.is_grad_enabled():
            self._tables = (S.detach(), H.detach())
        return S, H, auxiliary

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if self.model.training:
            assert self._tables is not None
            self._micro = _micro_batch(inputs, *self._tables, self.num_generations)
            self._tables = None
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Take TRL's step, then show it to the instruments."""
        loss = super().training_step(*args, **kwargs)
        assert self._micro is not None
        for instrument in self.instruments:
            instrument.micro_step(self, self._micro)
        self._micro = None
        if self.accelerator.sync_gradients:
            for instrument in self.instruments:
                self.note(instrument.update(self, self.state.global_step + 1))
        return loss


class _Hooks(TrainerCallback):
    """Calls the instruments where a trainer calls its callbacks."""

    def __init__(self, trainer: Instrumented) -> None:
        self.trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        for instrument in self.trainer.instruments:
            instrument.attach(self.trainer)

    def on_step_end(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        for instrument in self.trainer.instruments:
            metrics = instrument.updated(self.trainer, state.global_step)
            self.trainer.note(metrics)


def _in_order(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Batches of the same rows, by their places in the window."""
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


def _micro_batch(
    inputs: Mapping[str, Any], S: Tensor, H: Tensor, group_size: int
) -> MicroBatch:
    mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    advantage = inputs["advantages"]
    S_old = inputs.get("old_per_token_logps")
    return MicroBatch(
        row=inputs["row"],
        group=inputs["row"] // group_size,
        prompt_ids=inputs["prompt_ids"],
        prompt_mask=inputs["prompt_mask"],
        response_ids=inputs["completion_ids"],
        response_mask=mask,
        rewards=inputs["rewards"],
        advantage=advantage if advantage.ndim == 2 else advantage[:, None],
        S=S,
        S_old=S if S_old is None else S_old,
        H=H,
    )
