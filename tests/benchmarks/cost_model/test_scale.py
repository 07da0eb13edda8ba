"""The page on scale shows what the cost model says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_table_of_the_page_is_what_the_command_prints(capsys):
    runpy.run_path(str(ROOT / "docs/figures/scale.py"), run_name="__main__")
    tables = [
        part.partition("\n\n")[2].strip()
        for part in capsys.readouterr().out.split("## ")[1:]
    ]
    page = (ROOT / "docs/design/scale.md").read_text()
    assert len(tables) == 10
    for table in tables:
        assert table in page
