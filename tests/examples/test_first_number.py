"""The example of docs/python.md is the file that is run here."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_first_number_prints_an_interval_that_holds_the_exact_value(capsys):
    runpy.run_path(str(ROOT / "examples/first_number.py"))
    printed = capsys.readouterr().out.splitlines()
    exact = float(printed[-1].split()[-1])
    low, high = (
        float(x.strip("[]")) for x in printed[1].split("interval ")[1].split(", ")
    )
    assert low < exact < high


def test_the_page_shows_the_example_as_it_is():
    example = (ROOT / "examples/first_number.py").read_text()
    assert example in (ROOT / "docs/python.md").read_text()
