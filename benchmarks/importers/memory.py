"""Peak memory of a conversion, of checkpoints by many processes.

A child converts a tiny checkpoint first, so that everything is imported, and gives free
memory back; then it converts the large one. Its anonymous resident memory (RssAnon) is
read every millisecond, and the growth above the start counts. Pages of files that were
mapped or written do not: the kernel drops them where memory is short.
"""

import ctypes
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.harness import Check, memory_growth
from benchmarks.importers.synthetic import MOMENTS, save_base, shapes_of, value, write

LIMIT = 1.3
"""Of the growth, relative to the largest file of a process."""

LAYERS = 6
CASES = (
    *(("fsdp2", processes) for processes in (2, 4, 8)),
    ("fsdp", 8),
    *(("zero2", processes) for processes in (2, 4, 8)),
    ("zero3", 8),
)
_NAMES = {
    "fsdp2": "verl FSDP2",
    "fsdp": "verl FSDP1",
    "zero2": "OpenRLHF, ZeRO 2",
    "zero3": "DeepSpeed ZeRO 3",
}
_FILLED = 256
MEASURED = (
    "growth of RssAnon of a process of its own over its start, after a tiny conversion "
    "and malloc_trim; read every millisecond; pages of mapped files are not counted"
)


def checks() -> tuple[list[Check], dict[str, object]]:
    """Check the memory and the bits of every case."""
    torch.set_num_threads(1)  # Threads of this process would not survive a fork.
    made: list[Check] = []
    figures: dict[str, object] = {"memory is": MEASURED}
    with tempfile.TemporaryDirectory() as name:
        seen = memory_growth(__spec__.name, ["fill", str(_FILLED)])["anonymous"]
        made.append(Check(f"MiB seen of {_FILLED}", seen, at_least=0.95 * _FILLED))
        for kind, processes in CASES:
            case = f"{_NAMES[kind]}, {processes} processes"
            with tempfile.TemporaryDirectory(dir=name) as folder:
                found = converted(kind, processes, Path(folder))
            made += [
                Check(f"{case}: memory / file", found["ratio"], at_most=LIMIT),
                Check(f"{case}: other bits", found["others"], at_most=0),
            ]
            figures[case] = {key: round(float(x), 3) for key, x in found.items()}
    return made, figures


def converted(kind: str, processes: int, folder: Path) -> dict[str, float]:
    """Make a checkpoint, convert it in a child, and compare all values."""
    for layers, place in ((1, folder / "tiny"), (LAYERS, folder / "large")):
        place.mkdir()
        made = get_context("fork").Process(
            target=write, args=(kind, processes, layers, place)
        )
        made.start()
        made.join()
        assert made.exitcode == 0, f"{kind} of {processes} could not be made"
    files = [f for f in (folder / "large").rglob("*.pt") if "_rank_" in f.name]
    largest = max(file.stat().st_size for file in files) / 2**20
    memory = memory_growth(
        __spec__.name, ["convert", str(folder / "tiny"), str(folder / "large")]
    )
    return {
        "checkpoint_mib": sum(file.stat().st_size for file in files) / 2**20,
        "largest_file_mib": largest,
        "memory_mib": memory["anonymous"],
        "ratio": memory["anonymous"] / largest,
        "with_mapped_pages_mib": memory["all"],
        "others": _others(folder / "large"),
    }


def _others(folder: Path) -> int:
    """Number of tensors of a converted checkpoint with another bit than they had."""
    from entrometer.policy.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(folder / "imported")
    with tempfile.TemporaryDirectory() as name:
        shapes = shapes_of(save_base(Path(name), LAYERS))
    weights = {n: p.detach() for n, p in checkpoint.policy.model.named_parameters()}
    state = checkpoint.state
    kinds = (weights, state.first_moment, state.second_moment)
    assert all(own.keys() == shapes.keys() for own in kinds)
    return sum(
        not torch.equal(own[name], value(shapes, name, kind))
        for own, kind in zip(kinds, ("weight", *MOMENTS), strict=True)
        for name in shapes
    )


def _convert(folder: Path) -> None:
    from entrometer.importers import read_foreign, write_checkpoint

    base = folder / "base"
    source = next(folder.glob("global_step_*"), folder / "_actor")
    found = read_foreign(source, base=str(base) if base.is_dir() else None)
    write_checkpoint(found, folder / "imported")


def _child(work: str, *arguments: str) -> None:
    if work == "convert":
        _convert(Path(arguments[0]))
    # What the first conversion has freed would hide as much of the second.
    ctypes.CDLL(None).malloc_trim(0)
    print("ready", flush=True)
    sys.stdin.readline()
    if work == "convert":
        _convert(Path(arguments[1]))
    else:
        bytearray(int(arguments[0]) * 2**20)
    print("done", flush=True)


if __name__ == "__main__":
    _child(*sys.argv[1:])
