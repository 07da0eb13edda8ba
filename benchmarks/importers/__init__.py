"""Checkpoints of other frameworks: bits against theirs, a step from them, memory."""

import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from benchmarks.harness import Check, Report
from benchmarks.importers.frameworks import KINDS, SEEDS, Truth, train
from entrometer.calculus import adamw_update
from entrometer.importers import read_foreign, write_checkpoint
from entrometer.policy.checkpoint import Checkpoint, load_checkpoint

Named = Mapping[str, Tensor]

EPSILON = torch.finfo(torch.float32).eps


def run() -> Report:
    # Here, because children run that file as a program.
    from benchmarks.importers import memory

    checks, figures = memory.checks()
    for framework, kinds in KINDS.items():
        for kind in kinds:
            name = f"{framework} {kind}"
            with tempfile.TemporaryDirectory() as folder:
                truth = train(framework, kind, Path(folder))
                found = compared(truth, Path(folder) / "imported")
            checks += [
                Check(f"{name}: tensors with another bit", found["others"], at_most=0),
                Check(f"{name}: after their next step", found["after"], at_most=1e-6),
            ]
            figures[name] = found
    return Report(checks, figures)


def compared(truth: Truth, out: Path) -> dict[str, float]:
    """Import, load, and take a step; how many tensors and by how much it is off."""
    shutil.rmtree(out, ignore_errors=True)
    write_checkpoint(read_foreign(truth.path, base=str(truth.base)), out)
    checkpoint = load_checkpoint(out)
    weights = {n: p.detach() for n, p in checkpoint.policy.model.named_parameters()}
    pairs = [
        *((weights[name], truth.weights[name]) for name in weights),
        *_pairs(checkpoint.state.first_moment, truth.first_moment),
        *_pairs(checkpoint.state.second_moment, truth.second_moment),
    ]
    step = _step(checkpoint, truth)
    ours = {name: weights[name] + v for name, v in step.items()}
    theirs = {name: truth.after[name].reshape(v.shape) for name, v in step.items()}
    off = {name: (ours[name] - theirs[name]).abs() for name in ours}
    return {
        "tensors": len(pairs),
        "others": sum(not torch.equal(a, b.reshape(a.shape)) for a, b in pairs),
        "after": _norm(off) / _norm(theirs),
        "step": _norm(off) / _norm(step),
        "beyond_an_ulp": float(
            max((off[n] > theirs[n].abs() * EPSILON).double().mean() for n in off)
        ),
    }


def _norm(named: Named) -> float:
    squares = [float(v.double().square().sum()) for v in named.values()]
    return math.sqrt(sum(squares))


def _pairs(own: Named, theirs: Named) -> list[tuple[Tensor, Tensor]]:
    assert not own.keys() - theirs.keys(), own.keys() - theirs.keys()
    return [(own[name], theirs[name]) for name in own]


def _step(checkpoint: Checkpoint, truth: Truth) -> Named:
    """The change of every trained parameter by one step on the batch that they took."""
    parameters = dict(checkpoint.policy.model.named_parameters())
    trained = {name: parameters[name] for name in checkpoint.state.first_moment}
    gradient = truth.gradient or _gradient(checkpoint, trained)
    update = adamw_update(
        {name: p.detach() for name, p in trained.items()},
        {name: gradient[name].reshape(p.shape).to(p) for name, p in trained.items()},
        checkpoint.state,
        checkpoint.hyperparameters,
    ).update
    return {name: checkpoint.learning_rate * v for name, v in update.direction.items()}


def _gradient(checkpoint: Checkpoint, trained: dict[str, Parameter]) -> Named:
    model: Any = checkpoint.policy.model
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(model.config.vocab_size, (2, 12), generator=generator)
        (model(input_ids=tokens, labels=tokens).loss / len(SEEDS)).backward()
    return {name: p.grad for name, p in trained.items() if p.grad is not None}
