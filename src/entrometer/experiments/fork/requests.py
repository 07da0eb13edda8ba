"""The request of `fork`: a training that continues from a checkpoint under a loss."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from entrometer import passes
from entrometer.engine.vectors import open_vectors
from entrometer.estimators import Tables
from entrometer.experiments.requests import Draw, Request, Responses, Subject, Worker
from entrometer.experiments.update import (
    ascent_of,
    read_advanced,
    take_step,
    write_checkpoint,
)
from entrometer.experiments.update_batch import Batch, sampled_batch
from entrometer.interventions import Intervention, TokenTables, intervention
from entrometer.policy import Checkpoint

TABLES = frozenset({"concentration"})
"""Optional tables of losses that a continuation computes."""

_STEPS, _LOSS = "taken", "intervention"


@dataclass(frozen=True, kw_only=True)
class TakenStep:
    """An optimizer step of a continuation, and the batch that it was taken on."""

    step: int
    """Number of the step in the training, from 1."""
    entropy: float
    """Mean entropy of the batch's tokens, in nats, before the step."""
    reward: float  #: Mean reward of the batch's responses.
    changed: float
    """Fraction of the batch's tokens that have another weight than in plain Dr-GRPO."""
    settings: str
    """Loss of the step with its settings, which an adaptive loss changes."""


@dataclass(frozen=True, kw_only=True)
class Continuation(Request):
    """The policy and its AdamW state after more steps of training under a loss.

    Each round samples responses with the policy as it is, and takes `window` steps on
    different prompts of them. The learning rate is the checkpoint's throughout.
    """

    kind: ClassVar[str] = "continuation"
    suffix: ClassVar[str] = ".safetensors"
    over: ClassVar[str] = ""

    draws: tuple[Draw, ...]
    """Problems and seeds of each round of sampling. The policy that answers is the one
    that the round begins with, not the draw's own."""
    window: int
    """Optimizer steps per round."""
    max_grad_norm: float  #: Norm that gradients are clipped to; 0 for no clipping.
    loss: str
    """Intervention with all its settings, as it is at the first step."""
    code: str = ""
    """Content key of the loss's function if a user wrote it."""
    total: int
    """Steps of the whole training, over which a loss with a schedule changes."""

    # Sampling, a forward pass, and the gradient.
    forwards = 2.0 + 1.0 + 2.2

    @property
    def repeats(self) -> int:
        """Number of optimizer steps."""
        return len(self.draws) * self.window

    @property
    def batches(self) -> Sequence[Responses]:
        """Responses of every round."""
        return self.draws

    @property
    def before(self) -> "Continuation | None":
        """The continuation that this one goes on with."""
        advanced = self.subject.advanced
        return advanced if isinstance(advanced, Continuation) else None

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """The continuation before this one; draws are made here, not read."""
        return () if self.before is None else (self.before,)

    def tokens(self, store: Path) -> int:
        """Return the tokens of all rounds at the length limit: they are not kept."""
        return sum(draw.count * draw.longest for draw in self.draws)

    def run(self, worker: Worker) -> None:
        """Take all steps, and write the policy, its moments and what each step saw."""
        chosen = intervention(self.loss)
        if self.before is not None:
            chosen = self.before.last_loss(worker.store)
        at = worker.take_checkpoint(self.subject)
        taken: list[dict[str, Any]] = []
        for draw in self.draws:
            at, chosen, steps = self._round(at, chosen, draw)
            taken += map(asdict, steps)
        about = {_STEPS: json.dumps(taken), _LOSS: chosen.text}
        write_checkpoint(self.path(worker.store), at, about=about)

    def _round(
        self, at: Checkpoint, chosen: Intervention, draw: Draw
    ) -> tuple[Checkpoint, Intervention, list[TakenStep]]:
        """Return where a round of sampling leads, its next loss, and its steps."""
        whole = sampled_batch(draw.sampled(at.policy))
        parts = [whole.minibatch(j + 1, self.window) for j in range(self.window)]
        # Before the first step: ratios of the later ones are to this policy.
        old = [passes.forward(at.policy, part.rollouts) for part in parts]
        steps: list[TakenStep] = []
        for j, part in enumerate(parts):
            here = passes.forward(at.policy, part.rollouts) if j else old[0]
            tables = self._tables(at, chosen, part, here, old[j].S)
            treated = part.treated(chosen, tables)
            ascent = ascent_of(at.policy, treated)
            at = take_step(at, ascent, max_grad_norm=self.max_grad_norm)
            entropy = float(here.H[part.counted].mean())
            step = TakenStep(
                step=at.step,
                entropy=entropy,
                reward=float(part.rollouts.reward.mean()),
                changed=float(treated.differing(part)[part.counted].mean()),
                settings=str(chosen),
            )
            steps.append(step)
            chosen = chosen.adapted(entropy)
        return at, chosen, steps

    def _tables(
        self,
        at: Checkpoint,
        chosen: Intervention,
        part: Batch,
        here: Tables,
        old: np.ndarray,
    ) -> TokenTables:
        surplus = None
        if "concentration" in chosen.remedy.needs:
            surplus = passes.concentration(at.policy, part.rollouts).surplus
        # A loss that draws is seeded by the number of the step, as in a training.
        tables = part.tables(here, old, concentration=surplus, seed=at.step + 1)
        return replace(tables, progress=at.step / self.total)

    def apply(self, checkpoint: Checkpoint, store: Path) -> Checkpoint:
        """Return the checkpoint with the parameters and moments after all steps."""
        return read_advanced(self.path(store), checkpoint)

    def after(self) -> Subject:
        """Return the policy after all steps."""
        return replace(self.subject, advanced=self)

    def taken(self, store: Path) -> list[TakenStep]:
        """Return the steps of this continuation, after those of the one before it."""
        earlier = [] if self.before is None else self.before.taken(store)
        rows = json.loads(self._about(store)[_STEPS])
        return [*earlier, *(TakenStep(**row) for row in rows)]

    def last_loss(self, store: Path) -> Intervention:
        """Return the loss of the step that would follow, as an adaptive one is then."""
        return intervention(self._about(store)[_LOSS])

    def _about(self, store: Path) -> dict[str, str]:
        with open_vectors(self.path(store), "a continued training", "cpu") as file:
            return dict(file.about)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process, with the draws whole."""
        # A request's draws are otherwise sent as references to results that exist.
        return super().__getstate__() | {"draws": self.draws}
