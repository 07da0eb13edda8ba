"""A directory of many small runs, some of them hostile."""

import json
import os
import shutil
from pathlib import Path

from benchmarks.report.hostile import hostile_texts
from benchmarks.report.synthetic import Shape, measurement, write
from entrometer.runs import seal, write_json

SECRET = "the-content-of-a-file-outside"
PLANTED = "a-page-that-came-with-the-run"
SHAPE = Shape(checkpoints=("checkpoint-8",), updates=("recorded",), etas=(1e-6, 3e-4))
SUMMARY = {
    "title": "Entropy change of one optimizer step",
    "sentences": [
        "A measurement of 1 checkpoint.",
        "The step changes the entropy by -0.017 [-0.030, -0.004] nats per token.",
    ],
    "warnings": [],
}


def make_runs(root: Path, count: int) -> Path:
    """Return `root` with `count` runs: measurements, trainings, and hostile ones."""
    first = training(root / "training-0000", steps=32)
    model = measured(root / "measurement-0000")
    texts = hostile_texts()
    summary = {"title": texts[0], "sentences": texts, "warnings": texts}
    config = {"checkpoints": texts[:3], "policy": texts[3], "names": texts}
    planted = write(root / "hostile-0000", measurement(SHAPE), summary, config)
    (planted / "report.html").write_text(PLANTED, encoding="utf-8")
    names = [n for n in map(_as_name, texts) if n]
    for place in range(count - 3):
        if place < len(names):
            hostile(root / f"{place:04d}{names[place]}", names[place])
        else:
            copy = model if place % 2 else first
            _linked(copy, root / f"{copy.name[:-5]}-{place:04d}")
    return root


def measured(run: Path) -> Path:
    """Write a finished measurement; return its directory."""
    config = {"checkpoints": ["../training-0000/checkpoint-8"], "policy": "tiny"}
    return write(run, measurement(SHAPE), SUMMARY, config)


def training(run: Path, *, steps: int, taken: int | None = None) -> Path:
    """Write a training of so many steps; return its directory."""
    taken = steps if taken is None else taken
    settings = {"policy": "tiny", "task": "arithmetic", "imitation": {}, "steps": steps}
    run.mkdir(parents=True, exist_ok=True)
    write_json(run / "config.json", settings)
    seal(run, only=["config.json"], about={"kind": "training"})
    checkpoint(run, taken)
    return run


def checkpoint(run: Path, step: int) -> None:
    """Write the checkpoint of a step, with the log of all steps up to it."""
    log = [
        {
            "step": t,
            "entropy/token": 1.5 - 0.02 * t,
            "entropy/token_se": 0.05,
            "reward": 0.2 + 0.01 * t,
            "predicted_change/observed": -0.02,
            "predicted_change/observed_se": 0.004,
            "predicted_change/predicted": -0.021 - 0.0001 * t,
            "predicted_change/predicted_se": 0.004,
            "predicted_change/error": -0.001 - 0.0001 * t,
            "predicted_change/error_se": 0.001,
        }
        for t in range(1, step + 1)
    ]
    path = run / f"checkpoint-{step}"
    path.mkdir()
    write_json(path / "trainer_state.json", {"log_history": log})
    seal(path)


def hostile(run: Path, text: str) -> Path:
    """Write a run of no known kind whose every text is `text`; return its directory."""
    (run / "results").mkdir(parents=True)
    body = {"title": text, "sentences": [text], "warnings": [text]}
    (run / "summary.json").write_text(json.dumps(body), encoding="utf-8")
    named = {"policy": text, "task": text, "checkpoints": [text], "intervention": text}
    (run / "config.json").write_text(json.dumps(named), encoding="utf-8")
    (run / "report.html").write_text(PLANTED, encoding="utf-8")
    seal(run, about={"kind": text, "finished": True})
    return run


def leaving(root: Path, outside: Path) -> None:
    """Add runs whose files are links out of the directory, and a link to a run.

    The last one's `results` is a link to a folder of the directory, which has the link
    that leads out.
    """
    outside.mkdir(parents=True)
    texts = {"title": SECRET, "sentences": [SECRET], "warnings": [SECRET]}
    write_json(outside / "summary.json", texts)
    write_json(outside / "config.json", {"policy": SECRET, "checkpoints": [SECRET]})
    (outside / "results").mkdir()
    for name in ("summary.json", "config.json"):
        run = measured(root / f"link-{name}")
        (run / name).unlink()
        (run / name).symlink_to(outside / name)
    run = measured(root / "link-results")
    shutil.rmtree(run / "results")
    (run / "results").symlink_to(outside / "results")
    table = measured(root / "link-table") / "results" / "changes.parquet"
    shutil.move(table, outside / "changes.parquet")
    table.symlink_to(outside / "changes.parquet")
    run = measured(root / "link-twice")
    shutil.move(run / "results", root / ".results")
    (run / "results").symlink_to("../.results")
    (root / ".results" / table.name).unlink()
    (root / ".results" / table.name).symlink_to(outside / "changes.parquet")
    (root / "link-run").symlink_to(outside)


def _linked(source: Path, run: Path) -> None:
    shutil.copytree(source, run, copy_function=os.link)


def _as_name(text: str) -> str:
    """Return a text as the name of a directory; empty if it cannot be one."""
    name = text.replace("/", "\u2215").replace("\0", "")[:60]
    return name if name.encode(errors="ignore").decode() == name else ""
