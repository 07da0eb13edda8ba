"""Passes over several update batches: gradients of losses, and what their steps do."""

# Axes: G gradients of the evaluation batch, R directions, P elements of a tensor.

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from entrometer import passes
from entrometer.calculus import (
    batch_directions,
    clip_scale,
    jackknife_horizons,
    zeros_like,
)
from entrometer.calculus.sharded import rows_of, sum_over
from entrometer.engine.vectors import VectorFile, open_vectors, parts, write_vectors
from entrometer.experiments.requests import (
    ShardedSum,
    Source,
    Summands,
    Worker,
    read_batch,
)
from entrometer.experiments.requests.request import Request
from entrometer.experiments.requests.step import Loss
from entrometer.experiments.token_influence.gradients import HALVES
from entrometer.experiments.token_influence.requests import FoldGradient
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint
from entrometer.policy.policy import padding_row
from entrometer.runs.columns import write_columns

_CLIP, _PLACES = "clip", "places"
# Elements of a tensor whose directions are formed at once. On a CPU, few enough that
# they stay in its cache from one of 128 steps to the next.
_CHUNK = {"cpu": 1 << 13}
_LARGE_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LossGradients(ShardedSum):
    """Minus the gradient of an update batch under several losses, each clipped.

    A loss that weighs every token as an earlier one does is not computed again: its
    gradient is that one's.
    """

    kind: ClassVar[str] = "loss-gradients"
    over: ClassVar[str] = "batch"
    # Few responses at a time: the fewer, the more losses are combinations of others on
    # them, and those without weight in any loss are passed over.
    part_tokens: ClassVar[int] = 1 << 9

    batch: Source
    losses: tuple[Loss | None, ...]
    """None is the loss that the batch comes with."""
    max_grad_norm: float

    @property
    def forwards(self) -> float:
        """Cost per response: one forward pass, and a backward pass per loss."""
        return 1.0 + 1.2 * len(self.losses)

    def vectors(self, vector_bytes: int) -> int:
        """Return the number of vectors: a gradient per loss, and their sum."""
        return 2 * len(self.losses)

    def read_batches(self, store: Path) -> list[Batch]:
        """Return the batch with the token weights of each loss."""
        batch = read_batch(self.batch, store)
        return [batch if x is None else x.apply(batch, store) for x in self.losses]

    def places(self, store: Path) -> list[int]:
        """Return for each loss the first one that weighs every token as it does."""
        batches = self.read_batches(store)
        return [
            next(j for j in range(i + 1) if not b.differing(batches[j]).any())
            for i, b in enumerate(batches)
        ]

    def summands(self, worker: Worker) -> Summands:
        """Return the function for minus the gradients by some responses."""
        policy = worker.checkpoint(self.subject).policy
        batches, places = self.read_batches(worker.store), self.places(worker.store)
        chosen = sorted(set(places))

        def some(rows: slice) -> dict[str, Tensor]:
            few = [batches[i].some(rows) for i in chosen]
            weighed = np.logical_or.reduce([batch.weighed_rows for batch in few])
            if not weighed.any():
                zeros = {str(i): zeros_like(policy.trained()) for i in chosen}
                return dict(parts(**zeros))
            few = [batch.at(np.flatnonzero(weighed)) for batch in few]
            with padding_row(policy, few[0].padding_row):
                found = passes.vjps(
                    policy, few[0].rollouts, [batch.weights for batch in few]
                ).gradients
            named = {str(i): g for i, g in zip(chosen, found, strict=True)}
            return dict(parts(**named))

        return some

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Write the gradients, and the factor by which clipping scales each."""
        about = {_PLACES: json.dumps(self.places(worker.store))}
        for i in dict.fromkeys(name.partition("/")[0] for name in total):
            vector = {n: x for n, x in total.items() if n.startswith(f"{i}/")}
            limit = self.max_grad_norm
            about[f"{_CLIP}_{i}"] = repr(clip_scale(vector, limit) if limit else 1.0)
        write_vectors(self.path(worker.store), total.items(), about=about)


@dataclass(frozen=True, kw_only=True)
class LossProducts(Request):
    """Products of the evaluation batch's gradients with a loss's AdamW steps.

    One row per gradient, in the order of `gradient_names`. Columns: `step_b` with the
    step that AdamW makes of batch b, `history_b` with momentum's part of it, `rate_H`
    with AdamW's mean direction over the next H steps, `rate_H_without_b` with the same
    by all batches but b.
    """

    kind: ClassVar[str] = "loss-products"
    # Products of vectors read no responses.
    over: ClassVar[str] = ""

    gradients: tuple[FoldGradient, ...]
    updates: tuple[LossGradients, ...]
    """Gradients of the losses, one request per batch."""
    loss: int
    """Which of their losses."""
    horizons: tuple[int, ...] = ()

    def run(self, worker: Worker) -> None:
        """Write the products, tensor by tensor."""
        checkpoint = worker.checkpoint(self.subject)
        names = self.column_names()
        total = np.zeros((2 * len(self.gradients) + HALVES, len(names)))
        with ExitStack() as stack:

            def opened(request: Request, kind: str) -> VectorFile:
                path = request.path(worker.store)
                return stack.enter_context(
                    open_vectors(path, kind, self.subject.placement)
                )

            files = [opened(b, "gradients of losses") for b in self.updates]
            folds = [opened(g, "gradients") for g in self.gradients]
            places = [json.loads(file.about[_PLACES])[self.loss] for file in files]
            clips = [
                float(file.about[f"{_CLIP}_{i}"])
                for file, i in zip(files, places, strict=True)
            ]
            for name in checkpoint.policy.trained():
                g = [
                    clip * rows_of(file[f"{i}/{name}"]).flatten()
                    for file, i, clip in zip(files, places, clips, strict=True)
                ]
                ours = _fold_rows(folds, name)
                state = self._state(checkpoint, name)
                chunk = _CHUNK.get(ours.device.type, _LARGE_CHUNK)
                for first in range(0, ours.shape[1], chunk):
                    at = slice(first, first + chunk)
                    G, some = [x[at] for x in g], [x[at] for x in state]
                    rows = self._directions(G, some, checkpoint, name)
                    D = torch.stack(list(rows)).to(torch.float64)
                    total += (ours[:, at].to(torch.float64) @ D.T).cpu().numpy()
        # A process of a group has multiplied its rows of each parameter alone.
        mesh = checkpoint.policy.mesh
        total = sum_over(mesh, torch.as_tensor(total)).numpy()
        columns = {name: total[:, i].copy() for i, name in enumerate(names)}
        write_columns(self.path(worker.store), columns)

    def column_names(self) -> list[str]:
        """Return the columns in the order of the directions."""
        batches = range(len(self.updates))
        return [
            *(f"step_{b}" for b in batches),
            *(f"history_{b}" for b in batches),
            *(f"rate_{h}" for h in self.horizons),
            *(f"rate_{h}_without_{b}" for b in batches for h in self.horizons),
        ]

    @staticmethod
    def _state(checkpoint: Checkpoint, name: str) -> list[Tensor]:
        """Return a parameter and AdamW's two moments of it, each as one row."""
        state, p = checkpoint.state, checkpoint.policy.trained()[name].detach()
        parts = (p, state.first_moment[name], state.second_moment[name])
        return [rows_of(x).flatten() for x in parts]

    def _directions(
        self,
        ascents: Sequence[Tensor],
        state: Sequence[Tensor],
        checkpoint: Checkpoint,
        name: str,
    ) -> Iterator[Tensor]:
        """Yield the directions of all columns, for some elements of one parameter."""
        (p, m, s), hyper = state, checkpoint.hyperparameters
        settings: dict[str, Any] = {
            "step": checkpoint.state.step,
            "betas": hyper.betas,
            "epsilon": hyper.epsilon,
        }
        decay = -hyper.weight_decay[name] * p
        # AdamW descends: its gradient is minus the ascent.
        G = -torch.stack(list(ascents)).to(m)
        steps, history = batch_directions(G, m, s, **settings)
        yield from decay + steps
        yield from history
        if not self.horizons:
            return
        rates = jackknife_horizons(G, m, s, **settings, horizons=self.horizons)
        for row in range(len(ascents) + 1):
            yield from (decay + rate[row] for rate in rates)


def _fold_rows(folds: Sequence[VectorFile], name: str) -> Tensor:
    """Return the gradients of one parameter, in the order of `gradient_names`."""
    by_fold = [
        [rows_of(file[f"{x}/{name}"]).flatten() for file in folds] for x in "hJT"
    ]
    halves = [torch.stack(by_fold[2][half::HALVES]).sum(0) for half in range(HALVES)]
    return torch.stack([*by_fold[0], *by_fold[1], *halves])
