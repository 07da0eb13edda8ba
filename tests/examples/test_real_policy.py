"""The example with a language model runs on the one that needs no files."""

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/real_policy.py"


def test_prediction_and_measurement_agree_on_the_same_samples(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "tiny"])
    runpy.run_path(str(EXAMPLE))
    lines = capsys.readouterr().out.splitlines()
    predicted, measured = (float(line.split()[2]) for line in lines[2:4])
    # A step of 1e-5 is deep in the linear regime; what is left is float32.
    assert abs(predicted / measured - 1) < 0.02
