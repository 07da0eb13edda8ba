"""A GRPO trainer whose loss is an intervention's, with statistics of the update."""

# Axes: B responses of a micro-batch, T response tokens.

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from entrometer.interventions import PLAIN, Intervention, TokenTables
from entrometer.training.instruments import Instrumented, MicroBatch
from entrometer.training.pass_ahead import looking_ahead, rows_ahead
from entrometer.training.trainable import (
    looks_ahead,
    require_a_way_ahead,
    require_plain,
    require_whole_updates,
    trainable,
)
from entrometer.training.update_tables import (
    Pull,
    Rows,
    in_order,
    joined,
    pull,
    rows_of,
    tables_of,
)


class Intervened(Instrumented):
    r"""Mixin for a `GRPOTrainer`: the loss of an intervention in place of TRL's.

        class Trainer(Intervened, GRPOTrainer): ...

        trainer = Trainer(..., intervention="clip-cov:rho=0.002")

    Statistics are those of the batch of an optimizer step, over all its micro-batches
    and processes. A loss reaches the parameters through
    $\alpha = -\partial L/\partial S$ and $\gamma = -\partial L/\partial H$ alone, so
    before the first micro-batch of a step the tables of all are made, without
    gradients, $\alpha$ and $\gamma$ are taken of the whole batch, and the loss of a
    micro-batch is $-\sum\alpha S + \gamma H$ over its own tokens: the gradients add up
    to that of the whole batch. Where the loss of a token depends on that token alone,
    or statistics are over `micro_batch` responses that a micro-batch holds, nothing
    has to be made ahead.

    Plain Dr-GRPO with TRL's own clip is left to TRL.

    Logs `intervention/changed`, the share of counted tokens whose $\alpha$ is another
    than plain Dr-GRPO's, and the settings of one that adapts.
    """

    def __init__(
        self, *args: Any, intervention: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.intervention: Intervention | None = None
        """That of the next step; None where the loss is TRL's."""

        self._begun_with: Intervention | None = None
        self._looks_ahead = False
        self._graph: tuple[Tensor, Tensor] | None = None
        self._pulls: list[Pull] = []
        self._sums = torch.zeros(3, dtype=torch.float64)
        if intervention is not None:
            self._intervene(trainable(intervention))

    def _intervene(self, chosen: Intervention) -> None:
        require_plain(self)
        own = {"low": self.epsilon_low, "high": self.epsilon_high}
        if chosen.name == PLAIN and dict(chosen.settings) == own:
            return
        if looks_ahead(chosen, self.args.per_device_train_batch_size):
            require_a_way_ahead(
                chosen, fsdp=self.is_fsdp_enabled, deepspeed=self.is_deepspeed_enabled
            )
            require_whole_updates(self, chosen)
            self._looks_ahead = True
        self.intervention = self._begun_with = chosen

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
        if self._looks_ahead and place == 0:
            self._pulls = self._look_ahead(n)
        # For its metrics, and the forward pass; the loss itself is not TRL's.
        super()._compute_loss(model, inputs)
        assert self._graph is not None
        (S, H), self._graph = self._graph, None
        if self._looks_ahead:
            own = self._pulls[place]
            # The gradients of processes are averaged.
            unit = float(self.accelerator.num_processes)
        else:
            own = pull(self.intervention, self._token_tables(rows_of(inputs, S, H)))
            unit = 1 / n
        alpha, gamma = own.alpha.to(S), own.gamma.to(H)
        assert self._micro is not None
        self._micro = replace(self._micro, alpha=alpha)
        self._count(self._micro, own)
        surrogate = -unit * (alpha * S + gamma * H).sum()
        # The gradient is the surrogate's, the value that is logged the loss's.
        return surrogate - surrogate.detach() + own.loss / n

    def _look_ahead(self, n: int) -> list[Pull]:
        """Pull of the whole update on each micro-batch of this process."""
        assert self.intervention is not None
        window = self.args.steps_per_generation
        micros = [self._buffered_inputs[(self._step + i) % window] for i in range(n)]
        wanted = "concentration" in self.intervention.remedy.needs
        with looking_ahead(self):
            parts = [rows_ahead(self, micro, concentration=wanted) for micro in micros]
        rows = in_order(joined(gather_object([joined(parts)])))
        whole = pull(self.intervention, self._token_tables(rows))
        return [
            whole.at(torch.searchsorted(rows.row, part.row), part.S.shape[1])
            for part in parts
        ]

    def _token_tables(self, rows: Rows) -> TokenTables:
        done = self.state.global_step
        return tables_of(
            rows,
            group_size=self.num_generations,
            length_limit=self.max_completion_length,
            seed=done + 1,
            progress=done / self.state.max_steps,
        )

    def _count(self, micro: MicroBatch, own: Pull) -> None:
        mask = micro.response_mask.bool().cpu()
        entropy = micro.H.cpu().double()[mask].sum()
        self._sums += torch.stack([own.changed[mask].sum(), mask.sum(), entropy])

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Take the step; after the last one of an update, adapt."""
        loss = super().training_step(*args, **kwargs)
        if self.intervention is not None and self.accelerator.sync_gradients:
            self._conclude(self.intervention)
        return loss

    def _conclude(self, chosen: Intervention) -> None:
        """Log what was done to the update, and adapt to its entropy."""
        changed, counted, entropy = sum(gather_object([self._sums])).tolist()
        self._sums = torch.zeros_like(self._sums)
        if chosen.remedy.adapt is not None:
            self.note({f"intervention/{k}": float(v) for k, v in chosen.settings})
        if counted:
            self.note({"intervention/changed": changed / counted})
            self.intervention = chosen.adapted(entropy / counted)

    def intervention_state(self) -> dict[str, Any]:
        """Settings of the next step, as JSON can hold them; {} where they stay."""
        chosen = self.intervention
        if chosen is None or chosen.remedy.adapt is None:
            return {}
        return dict(chosen.settings)

    def restore_intervention(self, state: Mapping[str, float]) -> None:
        """Take back what `intervention_state` gave."""
        assert self.intervention is not None
        self.intervention = replace(self.intervention, settings=tuple(state.items()))

    def about_intervention(self) -> dict[str, Any]:
        """What a checkpoint fits: {} where the loss is TRL's."""
        begun = self._begun_with
        return {} if begun is None else {"intervention": begun.text}
