"""A GRPO trainer with the loss of an intervention, over complete update batches."""

# Axes: B responses of a micro-batch, T response tokens.

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from entrometer.interventions import PLAIN, Intervention, TokenTables
from entrometer.training.instruments import Instrumented, counted_tokens
from entrometer.training.trainable import (
    needs_lookahead,
    require_complete_window,
    require_lookahead_supported,
    require_plain_loss,
    require_tables,
    trainable,
)
from entrometer.training.update_tables import (
    LossGradient,
    Rows,
    concatenate,
    lookahead_mode,
    lookahead_rows,
    loss_gradient,
    micro_batch_rows,
    sort_rows,
    token_tables,
)


class Intervened(Instrumented):
    r"""Mixin for a `GRPOTrainer`: the loss of an intervention in place of TRL's.

        class Trainer(Intervened, GRPOTrainer): ...

        trainer = Trainer(..., intervention="clip-cov:rho=0.002")

    Statistics are over the batch of an optimizer step: all its micro-batches, on all
    processes. A loss reaches the parameters only through
    $\alpha = -\partial L/\partial S$ and $\gamma = -\partial L/\partial H$. So before
    the first micro-batch of a step, a lookahead pass without gradients computes the
    tables of all of them, $\alpha$ and $\gamma$ follow from the complete batch, and the
    loss of a micro-batch is $-\sum\alpha S + \gamma H$ over its own tokens: the
    gradients add up to that of the complete batch. No lookahead is needed if the loss
    of a token depends on that token alone, or if statistics are over groups of
    `micro_batch` responses that fit into a micro-batch.

    Plain Dr-GRPO with TRL's own clip is left to TRL.

    Logs `intervention/changed`, the fraction of counted tokens whose $\alpha$ or
    $\gamma$ differs from plain Dr-GRPO, and the settings of an intervention that
    adapts.
    """

    def __init__(
        self, *args: Any, intervention: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.intervention: Intervention | None = None
        """Intervention of the next step; None if the loss is TRL's."""

        self._initial: Intervention | None = None
        self._lookahead = False
        self._graph: tuple[Tensor, Tensor] | None = None
        self._gradients: list[LossGradient] = []
        # Changed tokens, counted tokens and their entropy, summed over an update.
        self._sums = torch.zeros(3, dtype=torch.float64)
        if intervention is not None:
            self._intervene(trainable(intervention))

    def available_tables(self) -> set[str]:
        """Return the optional tables of `TokenTables` that the trainer has."""
        # A `rollout_func` may return no log-probs: then the first update says so.
        engine = self.use_vllm or self.rollout_func is not None
        have = {"S_ref": self.beta != 0.0, "S_engine": engine, "concentration": True}
        return {name for name, has in have.items() if has}

    def _intervene(self, chosen: Intervention) -> None:
        require_plain_loss(self, chosen)
        require_tables(chosen, self.available_tables())
        trl_clip = {"low": self.epsilon_low, "high": self.epsilon_high}
        if chosen.name == PLAIN and dict(chosen.settings) == trl_clip:
            return
        if needs_lookahead(chosen, self.args.per_device_train_batch_size):
            require_lookahead_supported(
                chosen, fsdp=self.is_fsdp_enabled, deepspeed=self.is_deepspeed_enabled
            )
            require_complete_window(self, chosen)
            self._lookahead = True
        self.intervention = self._initial = chosen

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        S, H, auxiliary = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self.intervention is not None and torch.is_grad_enabled():
            self._graph = (S, H)
        return S, H, auxiliary

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        if self.intervention is None or not self.model.training:
            return super()._compute_loss(model, inputs)
        n = self.current_gradient_accumulation_steps
        place = self._step % n
        if self._lookahead and place == 0:
            self._gradients = self._look_ahead(n)
        # For TRL's metrics and its forward pass, whose S and H the override above
        # stored; the loss that it returns is not used.
        super()._compute_loss(model, inputs)
        assert self._graph is not None
        (S, H), self._graph = self._graph, None
        if self._lookahead:
            gradient = self._gradients[place]
            # Gradients of processes are averaged, and those of one batch add up.
            unit = float(self.accelerator.num_processes)
        else:
            rows = micro_batch_rows(inputs, S, H)
            gradient = loss_gradient(self.intervention, self._token_tables(rows))
            # GRPO trainers divide by the micro-batches of a step themselves
            # (`loss_is_scaled_for_ga`): transformers does not.
            unit = 1 / n
        alpha, gamma = gradient.alpha.to(S), gradient.gamma.to(H)
        self._add_to_sums(inputs, H.detach(), gradient)
        surrogate = -unit * (alpha * S + gamma * H).sum()
        # Its gradient is the surrogate's; its value, which is logged, is the loss.
        return surrogate - surrogate.detach() + gradient.loss / n

    def _look_ahead(self, n: int) -> list[LossGradient]:
        assert self.intervention is not None
        window = self.args.steps_per_generation
        micros = [self._buffered_inputs[(self._step + i) % window] for i in range(n)]
        wanted = "concentration" in self.intervention.remedy.needs
        with lookahead_mode(self):
            parts = [lookahead_rows(self, m, concentration=wanted) for m in micros]
        # Sorted, so that the result does not depend on the number of processes.
        rows = sort_rows(concatenate(gather_object([concatenate(parts)])))
        update = loss_gradient(self.intervention, self._token_tables(rows))
        return [
            update.at(torch.searchsorted(rows.row, part.row), part.S.shape[1])
            for part in parts
        ]

    def _token_tables(self, rows: Rows) -> TokenTables:
        done = self.state.global_step
        return token_tables(
            rows,
            group_size=self.num_generations,
            length_limit=self.max_completion_length,
            seed=done + 1,
            progress=done / self.state.max_steps,
        )

    def _add_to_sums(self, inputs: Any, H: Tensor, gradient: LossGradient) -> None:
        mask = counted_tokens(inputs).bool().cpu()
        entropy = H.cpu().double()[mask].sum()
        changed = gradient.changed[mask].sum()
        self._sums += torch.stack([changed, mask.sum(), entropy])

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run the step on a micro-batch; after the last of an update, adapt."""
        loss = super().training_step(*args, **kwargs)
        if self.intervention is not None and self.accelerator.sync_gradients:
            self._finish_update(self.intervention)
        return loss

    def _finish_update(self, chosen: Intervention) -> None:
        changed, counted, entropy = sum(gather_object([self._sums])).tolist()
        self._sums = torch.zeros_like(self._sums)
        if chosen.remedy.adapt is not None:
            self.note({f"intervention/{k}": float(v) for k, v in chosen.settings})
        if counted:
            self.note({"intervention/changed": changed / counted})
            self.intervention = chosen.adapted(entropy / counted)

    def intervention_state(self) -> dict[str, Any]:
        """Return the settings of the next step for a checkpoint; {} if constant."""
        chosen = self.intervention
        if chosen is None or chosen.remedy.adapt is None:
            return {}
        return dict(chosen.settings)

    def restore_intervention(self, state: Mapping[str, float]) -> None:
        """Restore what `intervention_state` returned."""
        assert self.intervention is not None
        self.intervention = replace(self.intervention, settings=tuple(state.items()))

    def about_intervention(self) -> dict[str, Any]:
        """Return what a resumed run must share: {} if the loss is TRL's."""
        initial = self._initial
        return {} if initial is None else {"intervention": initial.text}
