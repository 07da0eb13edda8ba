"""Passes of a trajectory: those of `influence` at each checkpoint, and their links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    named_checkpoints,
    scored_evaluation,
    subject_of,
)
from entrometer.experiments.influence.plan import (
    CheckpointPlan,
    UpdatePlan,
    plan_checkpoint,
)
from entrometer.experiments.requests import Forward, Request, Subject
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.requests import FoldGradient, folded
from entrometer.experiments.trajectory.config import TrajectoryConfig
from entrometer.experiments.trajectory.requests import DisplacementProducts
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import update_path
from entrometer.text import listed

_LISTED = 4
"""Most names in a message."""


@dataclass(frozen=True, kw_only=True)
class TrajectoryPoint:
    """Passes for one checkpoint of a trajectory."""

    name: str
    steps: int
    """Optimizer steps of the training so far."""
    subject: Subject
    here: tuple[Forward, ...]
    """The evaluation batch at the checkpoint, in shards."""
    gradients: tuple[FoldGradient, ...]
    influenced: CheckpointPlan | None
    """Plan of the recorded update; None at the last checkpoint."""
    displacement: DisplacementProducts | None
    """Slopes along the way from the checkpoint before; None at the first one."""

    @property
    def update(self) -> UpdatePlan:
        """The recorded update of a checkpoint that is not the last one."""
        assert self.influenced is not None, self.name
        return self.influenced.updates[0]

    def read_batch(self, store: Path) -> Evaluation:
        """Return the evaluation batch with log-probs S and entropies H, in folds."""
        return self.gradients[0].read_batch(store)

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        # Sampling first, because every other pass reads its responses.
        yield from (h.rollouts for h in self.here)
        yield from self.here
        yield from self.gradients
        if self.influenced is not None:
            # Not all that `influence` has: the rest is for its scores and checks.
            update = self.update
            yield from (update.step, update.adjoint, update.carried, update.texts)
        # Last, because it loads the policy of the checkpoint before.
        if self.displacement is not None:
            yield self.displacement


def plan(config: TrajectoryConfig) -> list[TrajectoryPoint]:
    """Return a point per checkpoint, by step; reads files, and loads no model."""
    named = sorted(
        named_checkpoints(config), key=lambda pair: read_schedule(pair[1]).step
    )
    _require_trajectory([path for _, path in named])
    influence = config.influence
    points: list[TrajectoryPoint] = []
    for name, path in named:
        if path == named[-1][1]:
            subject, influenced = subject_of(config, path), None
            evaluation = scored_evaluation(influence, subject)
            gradients = folded(subject, evaluation, config.folds)
        else:
            influenced = plan_checkpoint(influence, path, name)
            subject, gradients = influenced.subject, influenced.gradients
        points.append(
            TrajectoryPoint(
                name=name,
                steps=read_schedule(path).step,
                subject=subject,
                here=gradients[0].here,
                gradients=gradients,
                influenced=influenced,
                displacement=_link(points[-1], subject, gradients) if points else None,
            )
        )
    return points


def _link(
    before: TrajectoryPoint, subject: Subject, gradients: tuple[FoldGradient, ...]
) -> DisplacementProducts:
    return DisplacementProducts(
        subject=subject,
        start=replace(before.subject, optimizer=""),
        gradients_at_start=before.gradients,
        gradients=gradients,
    )


def _require_trajectory(paths: Sequence[Path]) -> None:
    """Raise unless these are checkpoints of a training that recorded its updates."""
    runs = list(dict.fromkeys(path.parent.resolve() for path in paths))
    if len(runs) > 1:
        raise InvalidValue(
            f"expected checkpoints of one training, got those of {len(runs)}: "
            f"{listed(runs, _LISTED)}; measure each training by itself"
        )
    if len(paths) < 2:
        raise InvalidValue(
            "expected at least 2 checkpoints of a training, between which entropy "
            f"changes, got 1: {paths[0]}; name the training's directory, {runs[0]}, "
            "or train with a smaller --save-every"
        )
    steps = [read_schedule(path).step for path in paths]
    for i in range(1, len(steps)):
        if steps[i] == steps[i - 1]:
            raise InvalidValue(
                "expected checkpoints after different numbers of steps, got "
                f"{steps[i]} in both {paths[i - 1]} and {paths[i]}; leave one out"
            )
    updates = [
        update_path(path.parent, step + 1)
        for path, step in zip(paths[:-1], steps[:-1], strict=True)
    ]
    missing = [
        path
        for path, update in zip(paths[:-1], updates, strict=True)
        # Not `present`: a manifest may list a file that was deleted since.
        if not update.is_file()
    ]
    if missing:
        raise InvalidValue(
            "expected the batch that training recorded after every checkpoint but the "
            f"last in {updates[0].parent}, got none after {len(missing)} of "
            f"{len(updates)}: {listed([p.name for p in missing], _LISTED)}; name only "
            "checkpoints whose next update was recorded, or train with the recorder"
        )
