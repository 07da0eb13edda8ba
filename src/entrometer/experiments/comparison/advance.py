"""A checkpoint after a step of its optimizer, kept as one file."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from entrometer.calculus import AdamWState, AdamWStep
from entrometer.calculus.vectors import LazyVector
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
    """Move a checkpoint, in place, to what `write_advanced` kept.

    Its moments stay in the file until they are asked for.
    """
    trained, kind = checkpoint.policy.trained(), "a policy after a step"
    with open_vectors(path, kind, "cpu") as file, torch.no_grad():
        steps, taken = int(file.about["steps"]), int(file.about["optimizer"])
        for name, p in trained.items():
            p.copy_(file[f"parameter/{name}"])

    def moment(part: str) -> LazyVector:
        def load(name: str) -> Tensor:
            with open_vectors(path, kind, trained[name].device) as file:
                return file[f"{part}/{name}"].to(trained[name])

        return LazyVector(trained, load)

    state = AdamWState(taken, moment("first"), moment("second"))
    return replace(checkpoint, state=state, step=steps)
