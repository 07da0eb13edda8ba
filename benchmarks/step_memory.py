"""Memory of a step in all parameters of SmolLM2, and of a forward without moments.

A child makes the same request on the tiny policy first, so that everything is imported,
and then on SmolLM2, with an update batch of 4 responses of 8 tokens whose activations
are small. Its anonymous memory counts, read every millisecond, in bytes per parameter;
weights and moments that are mapped from their files do not.
"""

import ctypes
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Check, Report, memory_growth
from benchmarks.untrained_checkpoint import write_untrained_checkpoint
from entrometer.engine import LocalEngine, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Forward, Request, Worker
from entrometer.policy.loading import load_policy
from studies.smollm2 import prepare_smollm2

LIMITS = {"step": 22.0, "forward": 5.0}


def run() -> Report:
    prepare_smollm2()
    checks, figures = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {
            p: write_untrained_checkpoint(load_policy(p), folder / p)
            for p in ("tiny", "smollm2")
        }
        for kind, limit in LIMITS.items():
            grown = memory_growth(__spec__.name, [kind, name])
            found = {k: x * 2**20 / sizes["smollm2"] for k, x in grown.items()}
            label = f"bytes per parameter, {kind}"
            checks.append(Check(label, found["anonymous"], at_most=limit))
            figures[kind] = {k: round(x, 2) for k, x in found.items()}
    return Report(checks, figures | {"parameters": sizes["smollm2"]})


def _requested(folder: Path, kind: str) -> tuple[Request, list[Request]]:
    """The measured request, and those that it needs."""
    config = ExperimentConfig(
        checkpoints=(str(folder),),
        updates=("sampled-1",),
        level="tiny" if folder.name == "tiny" else "easy",
        prompts=8,
        max_tokens=8,
        update_prompts=2,
        update_responses=2,
    )
    subject = subject_of(config, folder)
    if kind == "step":
        step = step_of(config, subject, "sampled-1", 1)
        assert isinstance(step.batch, Draw)
        return step, [step.batch]
    (draw, *_) = evaluation(config, subject)
    return Forward(subject=subject, rollouts=draw), [draw]


def _child(kind: str, folder: str) -> None:
    requests = {}
    for name in ("tiny", "smollm2"):
        store = Path(folder) / f"{name}-{kind}"
        store.mkdir()
        requests[name], needed = _requested(Path(folder) / name, kind)
        LocalEngine().run(needed, worker=Worker, store=store, progress=quiet)
    requests["tiny"].run(Worker(Path(folder) / f"tiny-{kind}"))
    # What was freed would hide as much of what follows.
    ctypes.CDLL(None).malloc_trim(0)
    print("ready", flush=True)
    sys.stdin.readline()
    requests["smollm2"].run(Worker(Path(folder) / f"smollm2-{kind}"))
    print("done", flush=True)


if __name__ == "__main__":
    _child(*sys.argv[1:])
