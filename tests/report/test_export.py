"""An exported run: what it holds, what it leaves out, and that it is a run again."""

import json
import zipfile

import pytest

from benchmarks.report.synthetic import measurement
from entrometer.errors import InvalidValue
from entrometer.experiments.experiment import run_kinds
from entrometer.report import write_report
from entrometer.report.export import CARD, LEFT_OUT, export_run
from entrometer.runs import verify
from entrometer.runs.rows import read_rows
from entrometer.runs.tables.measure import Sample
from tests.report.toy import SMALL, sample

KINDS = run_kinds()
SECRET = "the patient of room 12"


@pytest.fixture
def run(new_run):
    return new_run(
        measurement(SMALL, [sample(SECRET)]),
        name="warm",
        config={"checkpoints": ["/home/me/warm/checkpoint-4"], "policy": "me/base"},
        sentences=["checkpoint-4 of /home/me/warm was measured"],
    )


def content(folder):
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_texts_and_paths_are_left_out_and_the_rest_is_not(run, tmp_path):
    done = export_run(run, tmp_path / "out", KINDS)
    assert (done.texts > 0, done.paths > 0) == (True, True)
    (row,) = read_rows(tmp_path / "out" / "results" / "samples.parquet", Sample)
    (whole,) = read_rows(run / "results" / "samples.parquet", Sample)
    assert (row.prompt_text, row.response_text) == (LEFT_OUT, LEFT_OUT)
    assert (row.reward, row.surprisal) == (whole.reward, whole.surprisal)
    held = content(tmp_path / "out")
    assert SECRET.encode() not in held
    assert b"/home" not in held
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {
        "checkpoints": ["warm/checkpoint-4"],
        "policy": "me/base",
    }


def test_texts_and_paths_are_kept_when_asked_for(run, tmp_path):
    done = export_run(run, tmp_path / "out", KINDS, texts=True, paths=True)
    assert (done.texts, done.paths) == (0, 0)
    assert SECRET in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Nothing of the tables" in (tmp_path / "out" / CARD).read_text()


def test_an_export_is_a_run_whose_page_and_export_are_the_same(run, tmp_path):
    first = tmp_path / "warm-export"
    export_run(run, first, KINDS)
    assert verify(first)["kind"] == "measure"
    again = write_report([first], tmp_path / "page.html", KINDS).read_text()
    export_run(first, tmp_path / "again" / "warm-export", KINDS)
    assert SECRET not in again
    for name in ("results/changes.parquet", "config.json", "summary.json"):
        other = tmp_path / "again" / "warm-export" / name
        assert (first / name).read_bytes() == other.read_bytes()


def test_a_file_has_the_same_bytes_each_time(run, tmp_path):
    one, two = tmp_path / "one.zip", tmp_path / "two.zip"
    export_run(run, one, KINDS)
    export_run(run, two, KINDS)
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as packed:
        names = packed.namelist()
        page = packed.getinfo("warm/report.html")
    assert page.compress_size < page.file_size / 2
    assert {n.partition("/")[0] for n in names} == {"warm"}
    assert {"warm/report.html", "warm/README.md", "warm/manifest.json"} <= set(names)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.zip", "two.zip", "warm"]


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_an_earlier_export_is_replaced_and_nothing_else_is(run, tmp_path, name):
    out = tmp_path / name
    export_run(run, out, KINDS)
    export_run(run, out, KINDS)
    kept = tmp_path / f"kept-{name}"
    if name == "out":
        kept.mkdir()
        (kept / "thesis.txt").write_text("mine")
    else:
        with zipfile.ZipFile(kept, "w") as packed:
            packed.writestr("thesis.txt", "mine")
            packed.writestr("thesis/manifest.json", '{"about": {}}')
    with pytest.raises(InvalidValue, match="something else"):
        export_run(run, kept, KINDS)
    with pytest.raises(InvalidValue, match="something else"):
        export_run(run, run, KINDS)


def test_a_card_shows_markup_of_a_run_as_text(new_run, tmp_path):
    hostile = "<img src=x> ![](http://evil/x) | `code`\n# heading"
    run = new_run(name="run", sentences=[hostile])
    export_run(run, tmp_path / "out", KINDS)
    card = (tmp_path / "out" / CARD).read_text(encoding="utf-8")
    assert "<img" not in card
    assert "![\\](http" in card  # no link: its bracket is escaped
    assert "\n# heading" not in card
