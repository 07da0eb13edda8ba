"""The script of a TRL user, as it stands in examples/."""

import runpy
import sys
from pathlib import Path

from tests.training.toy import quietly

EXAMPLE = Path(__file__).parents[2] / "examples/watch_trl.py"


def test_one_line_records_and_predicts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["watch_trl.py", str(tmp_path)])
    with quietly():
        runpy.run_path(str(EXAMPLE))
    printed = capsys.readouterr().out.splitlines()
    recorded = next(line for line in printed if line.startswith("recorded:"))
    assert recorded.split()[1:] == [f"step-{n:08d}.parquet" for n in range(1, 7)]
    steps = [line for line in printed if "momentum alone by" in line]
    assert [line.split(":")[0] for line in steps] == ["step 2", "step 4", "step 6"]
