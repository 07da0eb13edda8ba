"""Mistakes that people make: one line each with the remedy, exit 2, no long wait."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Check, Report

EXAMPLE = Path(__file__).parents[1] / "examples" / "watch_trl.py"
SECONDS = 3.0
"""Most processor time of a mistake."""


class Mistake(NamedTuple):
    """A command line that is wrong, and words of the remedy that it must name."""

    name: str
    arguments: list[str]
    remedy: str


class Outcome(NamedTuple):
    """What the command line said, and what it took."""

    code: int
    lines: list[str]
    seconds: float


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        every = mistakes(root, _trained(root))
        outcomes = {m.name: _outcome(m, root) for m in every}
    remedies = {m.name: m.remedy for m in every}
    unnamed = [n for n, o in outcomes.items() if remedies[n] not in " ".join(o.lines)]
    longer = [n for n, o in outcomes.items() if len(o.lines) != 1]
    other = [n for n, o in outcomes.items() if o.code != 2]
    slowest = max(outcomes, key=lambda n: outcomes[n].seconds)
    return Report(
        [
            Check("mistakes", len(every), at_least=30),
            Check("without the remedy", len(unnamed), at_most=0),
            Check("not one line", len(longer), at_most=0),
            Check("not exit 2", len(other), at_most=0),
            Check(
                f"seconds of processor time, {slowest}",
                outcomes[slowest].seconds,
                at_most=SECONDS,
            ),
        ],
        {
            "unnamed": unnamed,
            "longer": longer,
            "other": other,
            "lines": {n: o.lines[:2] for n, o in outcomes.items()},
            "seconds": {n: round(o.seconds, 2) for n, o in outcomes.items()},
        },
    )


def mistakes(root: Path, run: Path) -> list[Mistake]:
    """Return the mistakes, made in copies of a watched training `run`."""
    checkpoint, measure = run / "checkpoint-4", ["measure", str(run / "checkpoint-4")]

    def copied(name: str, *, updates: bool = True) -> Path:
        """Return a copy of the checkpoint in a training of its own."""
        place = root / name
        shutil.copytree(checkpoint, place / "checkpoint-4")
        if updates:
            (place / "updates").symlink_to(run / "updates")
        return place / "checkpoint-4"

    def written(name: str, text: str) -> str:
        (root / name).write_text(text)
        return str(root / name)

    def changed(name: str, file: str, **values: object) -> str:
        """Return a copy whose JSON file has other values."""
        path = copied(name) / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return str(path.parent)

    unsaved = copied("no-optimizer")
    (unsaved / "optimizer.pt").unlink()
    weightless = copied("no-weights")
    (weightless / "model.safetensors").unlink()
    adapter = copied("adapter")
    (adapter / "model.safetensors").unlink()
    (adapter / "config.json").unlink()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": "/no/such/model", "peft_type": "LORA"})
    )
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    last = run / f"checkpoint-{_last(run)}"
    finished = root / "finished"
    finished.mkdir()
    (finished / "config.json").write_text("{}")
    chat = "\n".join(
        json.dumps({"prompt": [{"role": "user", "content": f"{n}+2?"}]})
        for n in range(9)
    )
    bare = copied("no-template")
    (bare / "chat_template.jinja").unlink()
    few = written("few.jsonl", '{"prompt": "2+2="}')
    prompts = ["--prompts-file", few]
    no_updates = copied("no-updates", updates=False)
    wrong = [
        ("a verb that is none", ["mesure", str(checkpoint)], "measure"),
        ("no checkpoint", ["measure"], "name a directory checkpoint-N"),
        ("a missing path", ["measure", str(run / "checkpoint-44")], "checkpoint-4"),
        ("a training in place of a checkpoint", ["measure", str(run)], "checkpoint-5"),
        ("a file", ["measure", str(checkpoint / "config.json")], "checkpoint"),
        ("no model", ["measure", str(root / "out" / "updates")], "checkpoint-N"),
        ("no optimizer", ["measure", str(unsaved)], "optimizer.pt"),
        ("no weights", ["measure", str(weightless)], "model.safetensors"),
        ("no base of an adapter", ["measure", str(adapter)], "--policy"),
        ("no recorded updates", ["measure", str(no_updates)], "--task"),
        ("the last checkpoint", ["measure", str(last)], "--updates sampled-1"),
        (
            "fresh responses without a reward",
            [*measure, "--updates", "sampled-1"],
            "--reward module:function",
        ),
        (
            "an evaluation without a reward",
            ["eval", str(checkpoint)],
            "--reward module:function",
        ),
        (
            "checkpoints of two trainings",
            ["measure", str(checkpoint), str(bare)],
            "separately",
        ),
        ("--lr", [*measure, "--lr", "1e-5"], "--help"),
        ("--batch-size", [*measure, "--batch-size", "8"], "--help"),
        ("--prompt", [*measure, "--prompt", "8"], "--prompts"),
        ("a word for a number", [*measure, "--prompts", "many"], "int"),
        ("too few prompts", [*measure, "--prompts", "2"], "at least 8"),
        ("a temperature of 0", [*measure, "--temperature", "0"], "above 0"),
        ("another temperature", [*measure, "--temperature", "0.7"], "--temperature 1"),
        ("an update that is none", [*measure, "--updates", "last"], "sampled-N"),
        ("no such device", [*measure, "--device", "cuda"], "cpu"),
        ("a task that is none", [*measure, "--task", "arithmetics"], "arithmetic"),
        (
            "a file of prompts that is missing",
            [*measure, "--prompts-file", str(root / "none.jsonl")],
            "name it",
        ),
        (
            "no prompts",
            [*measure, "--prompts-file", written("empty.jsonl", "")],
            "add some",
        ),
        (
            "no column prompt",
            [*measure, "--prompts-file", written("q.jsonl", '{"question": "a"}')],
            "add the column",
        ),
        (
            "no JSON",
            [*measure, "--prompts-file", written("bad.jsonl", "2+2=")],
            "correct the line",
        ),
        (
            "no chat template",
            ["measure", str(bare), "--prompts-file", written("chat.jsonl", chat)],
            "add a template",
        ),
        ("a single prompt", [*measure, *prompts], "at least 8 prompts"),
        ("a reward without a colon", [*measure, *prompts, "--reward", "r.py"], ":"),
        ("a reward that is missing", [*measure, *prompts, "--reward", "no:f"], "start"),
        (
            "tokens of another tokenizer",
            ["measure", changed("vocabulary", "config.json", vocab_size=5)],
            "vocab",
        ),
        (
            "a remedy that is none",
            ["compare", str(checkpoint), "--interventions", "entropy-bonsu"],
            "entropy-bonus",
        ),
        (
            "a setting that the remedy lacks",
            ["compare", str(checkpoint), "--interventions", "entropy-bonus:alhpa=1"],
            "alpha",
        ),
        ("another run's directory", [*measure, "--run", str(finished)], "--run"),
        (
            "nothing to resume",
            ["measure", "--resume", "--run", str(root / "none")],
            "no such file",
        ),
        ("no address", [*measure, "--sampler", "localhost:8000"], "http"),
        (
            "a setting in a file",
            [*measure, "--config", written("c.json", '{"promts": 8}')],
            "prompts",
        ),
        ("no run to report", ["report", str(run / "checkpoint-4")], "run"),
        ("nothing to import", ["import", str(root / "none"), str(root / "new")], "one"),
    ]
    return [Mistake(*each) for each in wrong]


def _trained(root: Path) -> Path:
    run = root / "out"
    command = [sys.executable, str(EXAMPLE), str(run)]
    subprocess.run(command, check=True, capture_output=True, cwd=root)
    return run


def _last(run: Path) -> int:
    return max(int(p.name.rpartition("-")[2]) for p in run.glob("checkpoint-*"))


def _outcome(mistake: Mistake, root: Path) -> Outcome:
    with tempfile.TemporaryFile("w+") as printed:
        command = [sys.executable, "-m", "entrometer.cli", *mistake.arguments]
        process = subprocess.Popen(command, stdout=printed, stderr=printed, cwd=root)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        lines = [line for line in printed.read().splitlines() if line.strip()]
    seconds = usage.ru_utime + usage.ru_stime
    return Outcome(process.returncode, lines, seconds)
