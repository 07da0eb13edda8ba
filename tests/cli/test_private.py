"""Nothing that a run leaves says whose machine it was made on."""

import json
import platform
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pyarrow.parquet as pq
import pytest
import torch

from entrometer.cli import main
from entrometer.policy.tiny import save_tiny
from entrometer.training import AdapterConfig, read_config
from entrometer.training.run import train
from tests.cli.conftest import CONFIG, FEW, SMALL, at
from tests.training.toy import quietly

HOST, USER, FOLDER = "quokka-host-17", "wombat-user-23", "numbat-folder-42"


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> Path:
    """Trainings, experiments, an evaluation and reports, on a machine with a name."""
    root = tmp_path_factory.mktemp("private") / FOLDER
    model = save_tiny(root / "models" / "base")
    lora, whole = root / "runs" / "lora", root / "runs" / "whole"
    names = ("HOME", "HOSTNAME", "LOGNAME", "USER", "USERNAME")
    with pytest.MonkeyPatch.context() as patched:
        for name in names:
            patched.setenv(name, str(root / USER) if name == "HOME" else USER)
        patched.setenv("HOSTNAME", HOST)
        patched.setattr(socket, "gethostname", lambda: HOST)
        patched.setattr(platform, "node", lambda: HOST)
        config = replace(CONFIG, policy=str(model), adapter=AdapterConfig(rank=2))
        with quietly(), torch.random.fork_rng(devices=[]):
            train(replace(config, report_to="tensorboard"), lora)
            train(replace(config, adapter=None), whole)
            for verb, flags in (("measure", SMALL), ("influence", FEW)):
                run = root / "runs" / verb
                told = [verb, *at(lora, 2), "--run", str(run), *flags]
                assert main([*told, "--no-report"]) == 0
            logs = str(root / "runs" / "logs")
            told = ["eval", str(lora), "--problems", "2"]
            assert main([*told, "--run", str(root / "runs" / "eval")]) == 0
            evaluated = ["report", str(root / "runs" / "eval")]
            assert main([*evaluated, "--inspect", logs]) == 0
            for run in ("lora", "measure", "influence"):
                assert main(["report", str(root / "runs" / run)]) == 0
    return root


def uncompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".parquet":
        content += str(pq.read_table(path).to_pydict()).encode()
    if is_zipfile(path):
        with ZipFile(path) as archive:
            content += b"".join(map(archive.read, archive.namelist()))
    return content


@pytest.mark.parametrize("secret", [HOST, USER, FOLDER])
def test_no_file_and_no_name_of_a_file_tells_of_the_machine(left, secret):
    files = [p for p in (left / "runs").rglob("*") if p.is_file()]
    kinds = {p.name for p in files} | {p.suffix for p in files}
    assert {"config.json", "about.json", "report.html", "manifest.jsonl"} <= kinds
    assert any("tfevents" in p.name for p in files)
    named = [p for p in files if secret in str(p.relative_to(left))]
    said = [p for p in files if secret.encode() in uncompressed(p)]
    assert [str(p.relative_to(left)) for p in (*named, *said)] == []


@pytest.mark.parametrize("name", ["lora", "measure", "influence", "eval"])
def test_no_text_of_a_prompt_or_a_response_is_exported(left, tmp_path, name, capsys):
    run = left / "runs" / name
    texts = set()
    for path in run.glob("results/*.parquet"):
        columns = pq.read_table(path).to_pydict()
        for column in ("prompt_text", "response_text", "text", "context"):
            texts |= set(columns.get(column, ()))
    # Shorter ones are also words of the page.
    told = sorted(t for t in texts if len(t) > 5)
    assert bool(told) == (name in ("measure", "influence"))
    out = tmp_path / "out"
    assert main(["export", str(run), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == len(
        [0 for path in run.glob("results/*.parquet") for _ in held_texts(path)]
    )
    for path in (p for p in out.rglob("*") if p.is_file()):
        content = uncompressed(path)
        assert [t for t in told if t.encode() in content] == []
        assert FOLDER.encode() not in content


def held_texts(path: Path) -> list[str]:
    table = pq.read_table(path).to_pydict()
    names = ("prompt_text", "response_text", "text", "context")
    return [text for name in names for text in table.get(name, ()) if text]


def test_runs_that_are_moved_with_their_model_are_resumed_and_repeated(
    left, tmp_path, monkeypatch, capsys
):
    """No pass is computed again: what is known by its content stays known."""
    moved = Path(shutil.copytree(left, tmp_path / "elsewhere" / "copy"))
    hidden = left.with_name("hidden")
    left.rename(hidden)
    monkeypatch.chdir(tmp_path)
    try:
        train(read_config(moved / "runs" / "lora"), moved / "runs" / "lora")
        run = str(moved / "runs" / "measure")
        passes = Path(run) / "passes" / "manifest.jsonl"
        before = passes.read_bytes()
        assert main(["measure", "--resume", "--run", run, "--no-report"]) == 0
        assert passes.read_bytes() == before
        assert main(["replay", run]) == 0
        assert "identical" in capsys.readouterr().out
    finally:
        hidden.rename(left)
