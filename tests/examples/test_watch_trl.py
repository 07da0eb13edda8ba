"""The script of a TRL user, as it stands in examples/, and a diagnosis after it."""

import runpy
import sys
import time
from pathlib import Path

import pytest

from entrometer.cli import main
from tests.training.toy import quietly

EXAMPLE = Path(__file__).parents[2] / "examples/watch_trl.py"


@pytest.mark.parametrize("flags", [[], ["--lora"]])
def test_one_line_records_and_a_diagnosis_needs_no_flag(
    flags, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["watch_trl.py", "out", *flags])
    with quietly():
        runpy.run_path(str(EXAMPLE))
    printed = capfd.readouterr().out.splitlines()
    recorded = next(line for line in printed if line.startswith("recorded:"))
    assert recorded.split()[1:] == [f"step-{n:08d}.parquet" for n in range(1, 7)]
    steps = [line for line in printed if "momentum alone by" in line]
    assert [line.split(":")[0] for line in steps] == ["step 2", "step 4", "step 6"]

    began = time.process_time()
    assert main(["diagnose", "out/checkpoint-5"]) == 0
    assert time.process_time() - began < 120
    told = capfd.readouterr()
    assert "step changes the entropy by" in told.out
    assert "keep significantly more entropy than plain" in told.out
    # Progress alone: no warning of a library.
    lines = told.err.splitlines()
    assert all(line.startswith("diagnose ") for line in lines)
    (run,) = Path("runs").iterdir()
    page = (run / "report.html").read_text()
    order = ["Where it is heading", "What would help", "Which tokens"]
    places = [page.index(f">{title}</h2>") for title in order]
    assert places == sorted(places)
