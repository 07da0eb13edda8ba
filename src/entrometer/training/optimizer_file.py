"""The optimizer of a sharded model, in the file that other training leaves."""

from pathlib import Path

import torch


def number_optimizer(directory: Path) -> None:
    """Write `optimizer.pt` beside the `optimizer.bin` of a checkpoint, if it has one.

    FSDP keeps the whole state by the names of parameters and goes on from that; any
    other trainer, and `load_checkpoint`, has it by their numbers, in the same order.
    """
    path = directory / "optimizer.bin"
    if not path.is_file():
        return
    named = torch.load(path, map_location="cpu", weights_only=True)
    names = [name for group in named["param_groups"] for name in group["params"]]
    number = {name: i for i, name in enumerate(names)}
    groups = [
        group
        | {"params": [number[name] for name in group["params"]]}
        # A list in a run that was resumed, for torch hands settings on as such.
        | {"betas": tuple(group["betas"])}
        for group in named["param_groups"]
    ]
    state = {number[name]: moments for name, moments in named["state"].items()}
    torch.save({"state": state, "param_groups": groups}, directory / "optimizer.pt")
