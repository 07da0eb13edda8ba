"""The functions of the package leave what the verbs leave, and show it."""

import re
import subprocess
import sys

import numpy as np
import pytest

import entrometer as em
from entrometer.errors import InvalidValue
from entrometer.experiments.requests import Worker
from tests.cli.conftest import at

SETTINGS = {
    "prompts": 12,
    "shard": 8,
    "curvature_prompts": 8,
    "variance_prompts": 8,
    "update_prompts": 4,
    "update_responses": 2,
    "synthetic_batches": 20,
    "synthetic_size": 8,
    "batches": 1,
}


def test_measure_leaves_the_tables_of_the_verb(
    trained, measured, tmp_path, monkeypatch
):
    """From the same passes: none is made anew, so all settings are the same."""
    monkeypatch.setattr(Worker, "checkpoint", None)
    found = em.measure(
        *at(trained, 2), run=tmp_path / "run", store=measured / "passes", **SETTINGS
    )
    for name in found.names:
        path = f"results/{name}.parquet"
        assert (found.path / path).read_bytes() == (measured / path).read_bytes()
    again = em.measure(
        *at(trained, 2), run=tmp_path / "run", store=measured / "passes", **SETTINGS
    )
    assert again == found


def test_a_result_is_the_text_of_the_verb_and_knows_its_tables(measured):
    found = em.read(measured)
    assert str(found).startswith(found.summary["sentences"][0])
    assert repr(found) == f"<measure in {measured}: {', '.join(found.names)}>"
    assert found.names[0] == "changes"


def test_frames_hold_the_table(measured):
    found = em.read(measured)
    table = found.arrow("changes")
    for frame in (found.frame(), found.polars()):
        assert list(frame.columns) == table.column_names
        np.testing.assert_array_equal(
            frame["observed"].to_numpy(), table["observed"].to_numpy()
        )


def test_a_training_has_metrics_by_step(trained):
    found = em.read(trained)
    assert found.names == ["metrics"]
    assert found.frame()["step"].tolist() == [1, 2, 3]


def test_a_notebook_shows_words_figures_and_the_page(influenced, tmp_path):
    found = em.read(influenced)
    assert "<li>" in found._repr_html_()
    figures = found.figures
    assert all("<svg" in figure._repr_svg_() for figure in figures.values())
    written = found.write_figures(tmp_path, formats=("svg",))
    assert {path.stem for path in written} == set(figures)
    shown = found.page(300)._repr_html_()
    assert re.match(r'<iframe sandbox="allow-scripts" srcdoc="', shown)
    assert "<!doctype html>" not in shown.lower()


def test_what_a_model_wrote_stays_text(measured, monkeypatch):
    found = em.read(measured)
    evil = {"title": "<b>", "sentences": ["<script>x</script>"], "warnings": ["<i>"]}
    monkeypatch.setattr(type(found), "summary", evil)
    shown = found._repr_html_()
    assert not {"<b>", "<script>", "<i>"} & set(re.findall(r"<[^/>]*>", shown))


def test_a_checkpoint_is_loaded_on_the_base_of_its_training(trained):
    checkpoint = em.load(*at(trained, 2), precision="float64")
    assert checkpoint.step == 2
    assert checkpoint.state.step == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda run: em.measure(*at(run, 2), prompst=8), "Did you mean 'prompts'"),
        (lambda run: em.measure(*at(run, 7)), "no such directory"),
        (lambda run: em.measure(), "at least one checkpoint"),
        (lambda run: em.read(run / "updates"), "got another directory"),
        (lambda run: em.read(run).frame("metric"), "Did you mean 'metrics'"),
    ],
)
def test_a_mistake_says_what_to_do(trained, call, said):
    with pytest.raises(InvalidValue, match=re.escape(said)):
        call(trained)


def test_another_run_is_not_written_over(trained, measured):
    with pytest.raises(InvalidValue, match="holds another run"):
        em.influence(*at(trained, 2), run=measured)


def test_a_training_is_not_written_over(trained):
    before = (trained / "config.json").read_bytes()
    with pytest.raises(InvalidValue, match=r"holds another run \(training\)"):
        em.measure(*at(trained, 2), run=trained)
    assert (trained / "config.json").read_bytes() == before


def test_a_checkpoint_without_its_training_asks_for_the_task(trained, tmp_path):
    alone = tmp_path / "checkpoint-2"
    alone.symlink_to(trained / "checkpoint-2")
    with pytest.raises(InvalidValue, match="expected task and max_tokens, got neither"):
        em.measure(alone)


def test_the_package_is_imported_without_torch():
    code = "import entrometer, sys; dir(entrometer); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="mesure"):
        em.mesure  # noqa: B018
