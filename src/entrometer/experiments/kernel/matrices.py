"""Matrices of a kernel in a file, with what they cost."""

# Axes: N sequences.

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from entrometer.runs import DamagedFile, atomic_write


@dataclass(frozen=True, eq=False)
class Matrices:
    """A kernel in both metrics, and its sketches."""

    matrices: dict[str, np.ndarray]
    """By metric; sketches by `METRIC/m`."""

    seconds: float
    """That rows and products took."""

    parameters: int
    """That are trained."""


def write_matrices(path: Path, found: Matrices) -> None:
    """Write them, whole or not at all."""
    metadata = {"seconds": repr(found.seconds), "parameters": repr(found.parameters)}
    whole = {name: np.ascontiguousarray(K) for name, K in found.matrices.items()}
    with atomic_write(path) as file:
        file.write(save(whole, metadata=metadata))


def read_matrices(path: Path) -> Matrices:
    """Read what `write_matrices` wrote."""
    try:
        with safe_open(path, "np") as file:
            about = file.metadata()
            return Matrices(
                matrices={
                    key: file.get_tensor(key)
                    for key in file.keys()  # noqa: SIM118 (it is no mapping)
                },
                seconds=float(about["seconds"]),
                parameters=int(about["parameters"]),
            )
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected the matrices of a kernel in {path}, got a file that is damaged "
            f"or of something else ({error}); delete it and go on"
        ) from error
