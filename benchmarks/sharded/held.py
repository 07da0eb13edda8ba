"""Bytes of parameters, moments and a direction that each process holds."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from entrometer.calculus import adamw_update
from entrometer.calculus.sharded import mesh_of_group, rows_of
from entrometer.engine.group import torchrun_group
from entrometer.policy import load_checkpoint


def held(checkpoint: str, base: str | None, shards: int) -> dict[str, float]:
    """MiB of this process, by kind."""
    mesh = mesh_of_group(shards, "cpu") if shards > 1 else None
    at = load_checkpoint(checkpoint, base=base, mesh=mesh)
    trained = at.policy.trained()
    gradient = {name: torch.ones_like(p) for name, p in trained.items()}
    made = adamw_update(trained, gradient, at.state, at.hyperparameters, max_norm=1.0)
    direction = made.update.direction
    kinds: dict[str, Mapping[str, Tensor]] = {
        "parameters": dict(at.policy.model.named_parameters()),
        "direction": dict(direction),
        "first moment": dict(at.state.first_moment),
        "second moment": dict(at.state.second_moment),
    }
    return {kind: _mib(vector) for kind, vector in kinds.items()}


def _mib(vector: Mapping[str, Tensor]) -> float:
    return sum(rows_of(x).nbytes for x in vector.values()) / 2**20


def _main(folder: str, checkpoint: str, base: str, shards: str) -> None:
    group = torchrun_group() if shards != "1" else None
    found = held(checkpoint, base or None, int(shards))
    rank = 0 if group is None else group.rank
    (Path(folder) / f"held-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
