from pathlib import Path

from entrometer.cli import main
from tests.cli.conftest import strictly


def test_page_goes_into_the_run_and_figures_where_they_are_asked(
    measured, tmp_path, capsys
):
    figures = ["--figures", str(tmp_path / "figures"), "--formats", "svg"]
    assert main(["report", str(measured), *figures, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert told["report"] == str(measured / "report.html")
    assert told["figures"]
    assert {Path(f).parent for f in told["figures"]} == {tmp_path / "figures"}
    assert all(Path(f).suffix == ".svg" for f in told["figures"])


def test_several_runs_make_one_page(measured, trained, tmp_path, capsys):
    out = tmp_path / "both.html"
    assert main(["report", str(measured), str(trained), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_run_is_refused(capsys):
    assert main(["report"]) == 2
    assert "expected directories of finished runs" in capsys.readouterr().err
