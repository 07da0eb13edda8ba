"""A checkpoint after a step of its optimizer, kept as one file."""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from entrometer.calculus import AdamWState, AdamWStep
from entrometer.policy import Checkpoint
from entrometer.runs import DamagedFile, atomic_write

_PARTS = ("parameter", "first", "second")


def write_advanced(
    path: Path, checkpoint: Checkpoint, made: AdamWStep, eta: float
) -> None:
    r"""Keep $\theta + \eta v$ and the moments after the step."""
    v = made.update.direction
    moved = {n: p + eta * v[n].to(p) for n, p in checkpoint.policy.trained().items()}
    moments = made.state.first_moment, made.state.second_moment
    tensors = {
        f"{part}/{name}": x.detach().contiguous()
        for part, vector in zip(_PARTS, (moved, *moments), strict=True)
        for name, x in vector.items()
    }
    about = {"steps": str(checkpoint.step + 1), "optimizer": str(made.state.step)}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata=about))


def read_advanced(path: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Move a checkpoint, in place, to what `write_advanced` kept."""
    vectors: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    trained = checkpoint.policy.trained()
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata()
            steps, taken = int(about["steps"]), int(about["optimizer"])
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                part, _, name = key.partition("/")
                vectors[part][name] = file.get_tensor(key).to(trained[name])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected a policy after a step in {path}, got a file that is damaged or "
            f"of something else ({error}); delete it and go on"
        ) from error
    with torch.no_grad():
        for name, p in trained.items():
            p.copy_(vectors["parameter"][name])
    state = AdamWState(taken, vectors["first"], vectors["second"])
    return replace(checkpoint, state=state, step=steps)
