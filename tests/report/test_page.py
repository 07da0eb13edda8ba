import json
import re
from dataclasses import dataclass, fields, replace
from html.parser import HTMLParser
from itertools import pairwise
from math import nan
from pathlib import Path

import pytest

from benchmarks.report import TEXTS, altered, hostile_run
from benchmarks.report.chromium import ChromiumMissing, find_chromium, open_page
from benchmarks.report.synthetic import KINDS, measurement, write
from entrometer.errors import InvalidValue
from entrometer.report import write_figures, write_report
from entrometer.report.kinds import RunKind
from entrometer.report.measure.change import change
from entrometer.report.read import read_runs
from entrometer.runs import seal
from entrometer.runs.rows import table_classes, write_rows
from entrometer.runs.tables.measure import MeasureTables
from tests.report.toy import SMALL, SUMMARY, sample

REFERENCE = Path(__file__).parents[2] / "studies" / "reference"
FIGURES = {
    *("change", "calibration", "relative-error", "effective-samples", "precision"),
    *("needed", "convergence"),
}


class Page(HTMLParser):
    """What a reader of the page meets, in order."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.raw = path.read_text(encoding="utf-8")
        self.tags, self.ids, self.text, self.attributes = [], [], "", []
        self.feed(self.raw)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return self.tags.count(tag)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of one small measurement."""
    folder = tmp_path_factory.mktemp("page")
    made = measurement(SMALL, [sample("a response")])
    run = write(folder / "run", made, SUMMARY, {"seed": 0})
    return Page(write_report([run], folder / "report.html", KINDS))


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Of two measurements and a training run."""
    folder = tmp_path_factory.mktemp("together")
    runs = [
        write(folder / name, measurement(SMALL), SUMMARY, {"seed": 0})
        for name in ("first", "second")
    ]
    return Page(write_report([*runs, REFERENCE], folder / "report.html", KINDS))


@pytest.fixture
def report(tmp_path):
    return lambda *runs: Page(
        write_report(runs, tmp_path / "out" / "report.html", KINDS)
    )


def unmeasured(row):
    """The row with every number undefined."""
    missing = {f.name: nan for f in fields(row) if f.type is float and f.name != "eta"}
    return replace(row, **missing)


def test_a_measurement_has_its_summary_figures_tables_and_samples(page):
    for words in ("A title", "One.", "Two.", "Beware.", "a response", "problem 0"):
        assert words in page.text
    assert set(page.ids) >= FIGURES
    # Each figure is drawn at two widths.
    assert page.count("svg") == 2 * page.count("figure") == 14
    assert page.count("figcaption") == 7
    # One for each figure, terms, variances, four ways by two units, settings, facts.
    assert page.count("table") == page.count("caption") == 7 + 2 + 8 + 2


def test_the_page_may_run_nothing_and_ask_for_nothing(page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page.raw)
    assert policy.startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    )
    assert not {"script", "img", "iframe", "object"} & set(page.tags)
    links = [a["href"] for _, a in page.attributes if "href" in a]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not any("src" in a for _, a in page.attributes)


def test_the_page_can_be_read_without_being_seen(page):
    levels = [int(t[1]) for t in page.tags if re.fullmatch("h[1-6]", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert dict(page.attributes)["html"] == {"lang": "en"}
    assert all("scope" in a for t, a in page.attributes if t == "th")
    inner = [a["href"][1:] for t, a in page.attributes if t == "a"]
    assert set(inner) <= set(page.ids)


def test_no_id_is_there_twice(together):
    assert len(together.ids) == len(set(together.ids))


def test_the_same_run_gives_the_same_bytes(page, report, new_run):
    assert report(new_run()).raw == page.raw


def test_several_runs_share_figures_and_tables(together):
    assert "3 runs compared" in together.text
    assert together.count("svg") == 2 * (7 + 5)
    changes = "<caption>Entropy change at the training&#39;s learning rate. Observed"
    glance = together.raw.split(changes)[1].split("</table>")[0]
    assert glance.count("<tr>") == 1 + 2
    for name in ("first", "second"):
        assert f'<th scope="row" class="w">{name}</th>' in glance


def test_a_training_run_is_drawn_with_its_evaluation(report):
    page = report(REFERENCE)
    assert "Training run reference" in page.text
    assert set(page.ids) >= {
        *("training-entropy", "training-passes", "training-reward"),
        *("training-noise", "training-prediction"),
    }
    # The figures of studies/reference/README.md.
    for words in ("0.453 [0.378, 0.530]", "−0.0139 ± 0.0045", "smollm2", "68 ± 26"):
        assert words in page.text


@pytest.mark.parametrize(
    "shape",
    [
        replace(SMALL, precisions=("float32",), curvature=False),
        replace(SMALL, etas=(3e-4,)),
        replace(SMALL, etas=(1e-8,)),
        replace(SMALL, precisions=("float64", "float32")),
        replace(SMALL, updates=("recorded", "sampled-1"), checkpoints=("a", "b", "c")),
    ],
    ids=["no curvature", "one rate", "far rate", "two precisions", "many"],
)
def test_every_shape_of_a_measurement_is_drawn(report, new_run, shape):
    page = report(new_run(measurement(shape)))
    assert page.count("svg") >= 6
    assert "nan" not in page.text.replace("nats", "")


def test_empty_tables_are_said_to_be_unmeasured(report, new_run):
    page = report(new_run(MeasureTables()))
    assert page.count("svg") == 0
    assert "Not measured here: entropy change, prediction" in page.text


def test_numbers_that_are_all_undefined_are_dashes(report, new_run):
    made = measurement(SMALL)
    rows = {
        name: [unmeasured(r) for r in getattr(made, name)]
        for name in table_classes(MeasureTables)
    }
    page = report(new_run(MeasureTables(**rows)))
    assert "–" in page.text
    assert "nan" not in page.text


@pytest.mark.parametrize(("slope", "sign"), [(-20.0, "−"), (20.0, "")])
def test_the_caption_of_one_change_tells_its_sign(new_run, slope, sign):
    made = measurement(replace(SMALL, slopes=(slope,)))
    caption = change(read_runs([new_run(made)], KINDS)).caption
    assert re.match(
        rf"At η.=.0\.0003 entropy changes by {sign}0\.00\d+ ± 0\.\d+ nats per token, "
        rf"where the slope predicts {sign}0\.00\d+, and the linear regime ends at η\*",
        caption,
    )


def test_the_caption_of_many_changes_counts_what_is_sure(new_run):
    shape = replace(SMALL, checkpoints=("a", "b", "c"), slopes=(-20.0, 20.0, -20.0))
    made = measurement(shape)
    unsure = [
        replace(c, observed_high=1.0) if c.checkpoint == "c" else c
        for c in made.changes
    ]
    run = new_run(replace(made, changes=unsure))
    assert change(read_runs([run], KINDS)).caption.startswith(
        "At the training's learning rate entropy falls for 1, rises for 1 and may be "
        "unchanged for 1 of 3 updates"
    )


def test_text_of_a_run_is_no_markup(report, new_run):
    evil = "<script>alert(1)</script>{{ 1234*5678 }}"
    made = measurement(
        replace(SMALL, checkpoints=(evil,), updates=('"><img src=x>',)),
        [sample(evil, checkpoint=evil)],
    )
    page = report(
        new_run(
            made,
            name="<b>run",
            title=evil,
            sentences=[evil],
            warnings=[evil],
            config={evil: evil},
        ),
        REFERENCE,
    )
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "{{ 1234*5678 }}" in page.text
    assert "7006652" not in page.text


def test_a_name_in_dollars_is_no_formula(report, new_run):
    made = measurement(replace(SMALL, checkpoints=("$\\frac{$", "_b", "\u4f60\x1b")))
    assert "$\\frac{$" in report(new_run(made)).text


def test_figures_are_files_for_papers(new_run, tmp_path):
    run = new_run()
    paths = write_figures(run, tmp_path / "figures", ("svg", "png", "pdf"), KINDS)
    assert {p.stem for p in paths} == FIGURES
    assert {p.suffix for p in paths} == {".svg", ".png", ".pdf"}
    before = {p: p.read_bytes() for p in paths}
    again = write_figures(run, tmp_path / "figures", ("pdf",), KINDS)
    assert all(p.read_bytes() == before[p] for p in again)


def test_an_unknown_format_is_refused_before_anything_is_written(new_run, tmp_path):
    with pytest.raises(InvalidValue, match="expected formats among svg, png, pdf"):
        write_figures(new_run(), tmp_path / "figures", ("svg", "bmp"), KINDS)
    assert not (tmp_path / "figures").exists()


@dataclass(frozen=True)
class Visit:
    place: str
    count: int
    mean: float
    sure: bool
    spread: tuple[float, ...]


@dataclass(frozen=True)
class VisitTables:
    visits: list[Visit]
    later: list[Visit]


def test_a_kind_without_parts_has_a_page_of_its_tables(tmp_path):
    rows = [Visit(f"place {i} <b>", i, i / 7, i > 3, (0.5, nan)) for i in range(60)]
    runs = []
    for name in ("one", "two"):
        run = tmp_path / name
        (run / "results").mkdir(parents=True)
        (run / "summary.json").write_text(json.dumps(SUMMARY))
        write_rows(run / "results" / "visits.parquet", Visit, rows)
        write_rows(run / "results" / "later.parquet", Visit, [])
        seal(run, about={"kind": "visits"})
        runs.append(run)
    kinds = KINDS | {"visits": RunKind("visits", VisitTables)}
    page = Page(write_report(runs[:1], tmp_path / "report.html", kinds))
    for words in ("A title", "One.", "Two.", "Beware.", "place 49 <b>", "0.5, –"):
        assert words in page.text
    assert "visits: the first 50 of 60 rows" in page.text
    assert "place 50" not in page.text
    assert page.count("svg") == 0
    both = Page(write_report(runs, tmp_path / "report.html", kinds))
    assert "visits: the first 50 of 120 rows" in both.text


def test_a_refused_run_leaves_the_old_page(new_run, tmp_path):
    out = write_report([new_run()], tmp_path / "report.html", KINDS)
    before = out.read_bytes()
    with pytest.raises(InvalidValue):
        write_report([tmp_path / "nothing"], out, KINDS)
    assert out.read_bytes() == before


@pytest.mark.slow
def test_chromium_shows_hostile_text_as_it_is(tmp_path):
    try:
        find_chromium()
    except ChromiumMissing as missing:
        pytest.skip(str(missing))
    texts = ["<script>document.title='pwned'</script>", "a\0\r\n\u202eb\x1b[0m", "&lt;"]
    made, summary, config = hostile_run(texts)
    run = write(tmp_path / "run", made, summary, config)
    opened = open_page(write_report([run], tmp_path / "report.html", KINDS), TEXTS)
    assert (opened.scripts, opened.requests, opened.messages) == (0, [], [])
    assert altered(opened.answer, made, summary, config) == []
