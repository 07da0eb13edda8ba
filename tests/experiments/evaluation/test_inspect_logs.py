"""An evaluation as logs of Inspect, read back by Inspect."""

import math
from dataclasses import replace

import pytest

from entrometer.experiments.evaluation import EVAL
from entrometer.experiments.evaluation.collect import read_graded
from entrometer.experiments.evaluation.plan import plan
from entrometer.experiments.requests import draw as drawing
from entrometer.experiments.run import run_experiment
from entrometer.policy import sample

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai.log import list_eval_logs, read_eval_log, recompute_metrics  # noqa: E402

from entrometer.experiments.evaluation.inspect_logs import (  # noqa: E402
    write_inspect_logs,
)

HOSTILE = (
    "<script>1</script>" + "<b>7</b>" * 40,
    "<think>a</think><answer>7</answer>\x1b[2J\u202e",
    "![](data:image/png;base64,AAAA) attachment://0",
)


@pytest.fixture
def evaluated(config, tmp_path):
    return run_experiment(EVAL, config, tmp_path / "eval").results


@pytest.fixture
def logs(evaluated, tmp_path):
    paths = write_inspect_logs(tmp_path / "logs", tmp_path / "eval")
    return [read_eval_log(path) for path in paths]


def in_order(log) -> list:
    """Inspect reads all samples of the first epoch first."""
    return sorted(log.samples, key=lambda sample: (sample.id, sample.epoch))


def metrics(log) -> dict[tuple[str, str], tuple[float, float]]:
    """Value and standard error by score and by what makes one number of epochs."""
    found = {}
    for score in log.results.scores:
        value, error = (metric.value for metric in score.metrics.values())
        found[score.name, score.reducer] = value, error
    return found


def test_figures_are_those_of_the_table(evaluated, logs):
    names = {
        ("answer", "mean"): "pass_at_1",
        ("answer", "pass_at_2"): "pass_at_2",
        ("format", "mean"): "format_rate",
        ("truncated", None): "truncated",
        ("length", None): "length",
        ("entropy", None): "entropy",
    }
    for step, log in zip((0, 8), logs, strict=True):
        rows = {r.quantity: r for r in evaluated if r.step == step}
        found = metrics(log)
        assert list(found) == list(names)
        for key, name in names.items():
            expected = (rows[name].value, rows[name].value_se)
            assert found[key] == pytest.approx(expected, abs=0, nan_ok=True)
        kept = {f"{name}": row.value for name, row in rows.items()}
        assert log.results.metadata == log.results.metadata | kept
        assert not any(math.isnan(v) for v in log.results.metadata.values())


def test_inspect_computes_the_same_from_the_samples(logs):
    for log in logs:
        ours = metrics(log)
        recompute_metrics(log)
        theirs = metrics(log)
        for key in (("answer", "mean"), ("answer", "pass_at_2"), ("format", "mean")):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-14)
            assert ours[key][1] > 0


def test_a_sample_per_problem_and_an_epoch_per_response(config, logs, tmp_path):
    store = tmp_path / "eval" / "passes"
    for point, log in zip(plan(config), logs, strict=True):
        asked = [(i, epoch) for i in range(10) for epoch in (1, 2, 3)]
        assert [(s.id, s.epoch) for s in in_order(log)] == asked
        assert log.eval.config.epochs == 3
        graded = read_graded(point, store)
        H = iter(graded.tables.H)
        for i, found in enumerate(in_order(log)):
            text, grades = graded.rollouts.text[i], graded.grades
            assert found.input == f"{found.id}+test="
            assert found.target == str(found.id)
            assert found.output.completion == found.messages[1].text == text
            right = "C" if grades["answer"][i] == 1 else "I"
            assert found.scores["answer"].value == right
            assert found.scores["format"].value == grades["format"][i]
            tokens = [next(H) for _ in range(graded.rollouts.length[i])]
            mean = sum(tokens) / len(tokens)
            assert found.metadata["entropy"] == pytest.approx(mean, rel=1e-14)
            assert found.output.usage.output_tokens == len(tokens)
            cut = "max_tokens" if grades["truncated"][i] else "stop"
            assert found.output.stop_reason == cut


def test_a_log_says_what_the_evaluation_was(config, logs):
    for step, log in zip((0, 8), logs, strict=True):
        assert log.status == "success"
        assert log.eval.task == "toy"
        assert log.eval.model == f"run/checkpoint-{step}"
        assert log.eval.model_args == {"step": step, "precision": config.precision}
        assert log.plan.config.temperature == config.temperature
        assert log.plan.config.max_tokens == config.max_tokens
        assert log.eval.metadata["responses"] == 3


def test_partial_credit_is_no_pass(config, tmp_path):
    half = replace(config, task="toy-half", checkpoints=config.checkpoints[:1])
    run_experiment(EVAL, half, tmp_path / "half")
    (path,) = write_inspect_logs(tmp_path / "logs", tmp_path / "half")
    samples = read_eval_log(path).samples
    assert {s.scores["answer"].value for s in samples} == {"I"}
    assert {s.metadata["reward"] for s in samples} == {0.0, 0.5}


def test_what_a_model_wrote_is_kept_and_not_trusted(config, tmp_path, monkeypatch):
    def hostile(policy, prompts, **settings):
        found = sample(policy, prompts, **settings)
        return replace(found, text=HOSTILE * (found.count // 3))

    monkeypatch.setattr(drawing, "sample", hostile)
    one = replace(config, checkpoints=config.checkpoints[:1])
    run_experiment(EVAL, one, tmp_path / "eval")
    (path,) = write_inspect_logs(tmp_path / "logs", tmp_path / "eval")
    log = read_eval_log(path, resolve_attachments=True)
    assert tuple(s.output.completion for s in in_order(log)) == HOSTILE * 10
    assert log.eval.viewer.trust_content is False


def test_another_export_replaces_the_first(logs, tmp_path):
    again = write_inspect_logs(tmp_path / "logs", tmp_path / "eval")
    listed = list_eval_logs(str(tmp_path / "logs"))
    assert sorted(log.name.rpartition("/")[2] for log in listed) == sorted(
        path.name for path in again
    )
    assert len(read_eval_log(again[0]).samples) == 30
