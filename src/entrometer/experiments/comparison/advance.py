"""A checkpoint after a step of its optimizer, kept as one file."""

from dataclasses import replace
from pathlib import Path

import torch

from entrometer.calculus import AdamWState, AdamWStep
from entrometer.engine.vectors import open_vectors, parts, write_vectors
from entrometer.policy import Checkpoint


def write_advanced(
    path: Path, checkpoint: Checkpoint, made: AdamWStep, eta: float
) -> None:
    r"""Keep $\theta + \eta v$ and the moments after the step."""
    v = made.update.direction
    moved = {n: p + eta * v[n].to(p) for n, p in checkpoint.policy.trained().items()}
    vectors = parts(
        parameter=moved,
        first=made.state.first_moment,
        second=made.state.second_moment,
    )
    about = {"steps": str(checkpoint.step + 1), "optimizer": str(made.state.step)}
    write_vectors(path, vectors, about=about)


def read_advanced(path: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Move a checkpoint, in place, to what `write_advanced` kept."""
    trained = checkpoint.policy.trained()
    with open_vectors(path, "a policy after a step") as file:
        steps, taken = int(file.about["steps"]), int(file.about["optimizer"])
        moved, first, second = (
            {name: x.to(trained[name]) for name, x in file.part(part).items()}
            for part in ("parameter", "first", "second")
        )
    with torch.no_grad():
        for name, p in trained.items():
            p.copy_(moved[name])
    state = AdamWState(taken, first, second)
    return replace(checkpoint, state=state, step=steps)
