"""An evaluation as logs of Inspect, read back by Inspect."""

import math
from dataclasses import replace

import pytest

from entrometer.evaluation import draw, evaluate, record
from entrometer.policy import sample
from tests.evaluation.toy import Toy

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai.log import list_eval_logs, read_eval_log, recompute_metrics  # noqa: E402

from entrometer.evaluation.inspect_logs import write_inspect_logs  # noqa: E402

TASK = Toy()
HOSTILE = (
    "<script>1</script>" + "<b>7</b>" * 40,
    "<think>a</think><answer>7</answer>\x1b[2J\u202e",
    "![](data:image/png;base64,AAAA) attachment://0",
)


@pytest.fixture
def evaluation(run, checkpoints, config):
    return evaluate(run, checkpoints, TASK, config)


@pytest.fixture
def logs(evaluation, config, tmp_path):
    paths = write_inspect_logs(tmp_path / "logs", evaluation, TASK, config)
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


def test_figures_are_those_of_the_table(evaluation, logs):
    names = {
        ("answer", "mean"): "pass_at_1",
        ("answer", "pass_at_2"): "pass_at_2",
        ("format", "mean"): "format_rate",
        ("truncated", None): "truncated",
        ("length", None): "length",
        ("entropy", None): "entropy",
    }
    for row, log in zip(evaluation.rows, logs, strict=True):
        found = metrics(log)
        assert list(found) == list(names)
        for key, name in names.items():
            estimate = row.measures[name]
            expected = (estimate.value, estimate.standard_error)
            assert found[key] == pytest.approx(expected, abs=0, nan_ok=True)
        kept = {k: v for k, v in record(row).items() if not math.isnan(v)}
        assert log.results.metadata == kept


def test_inspect_computes_the_same_from_the_samples(logs):
    for log in logs:
        ours = metrics(log)
        recompute_metrics(log)
        theirs = metrics(log)
        for key in (("answer", "mean"), ("answer", "pass_at_2"), ("format", "mean")):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-14)
            assert ours[key][1] > 0


def test_a_sample_a_problem_and_an_epoch_a_response(evaluation, logs):
    for kept, log in zip(evaluation.checkpoints, logs, strict=True):
        asked = [(i, epoch) for i in range(10) for epoch in (1, 2, 3)]
        assert [(s.id, s.epoch) for s in in_order(log)] == asked
        assert log.eval.config.epochs == 3
        samples = iter(in_order(log))
        for _, shard in kept.read():
            responses, H = shard.rollouts, iter(shard.tables.H)
            for i, text in enumerate(responses.text):
                found = next(samples)
                assert found.input == f"{found.id}+test="
                assert found.target == str(found.id)
                assert found.output.completion == found.messages[1].text == text
                right = "C" if responses.reward[i] == 1 else "I"
                assert found.scores["answer"].value == right
                assert found.scores["format"].value == shard.format[i]
                tokens = [next(H) for _ in range(responses.length[i])]
                assert found.metadata["entropy"] == pytest.approx(
                    sum(tokens) / len(tokens), rel=1e-14
                )
                assert found.output.usage.output_tokens == len(tokens)
                cut = "max_tokens" if shard.truncated[i] else "stop"
                assert found.output.stop_reason == cut


def test_a_log_says_what_the_evaluation_was(checkpoints, config, logs):
    for (step, _), log in zip(checkpoints, logs, strict=True):
        assert log.status == "success"
        assert log.eval.task == "toy"
        assert log.eval.model == f"run/checkpoint-{step}"
        assert log.eval.model_args == {"step": step, "precision": config.precision}
        assert log.plan.config.temperature == config.temperature
        assert log.plan.config.max_tokens == config.max_tokens
        assert log.eval.metadata["responses"] == 3


def test_partial_credit_is_no_pass(run, checkpoints, config, tmp_path):
    task = Toy(right=0.5)
    half = evaluate(run, checkpoints[:1], task, config)
    (path,) = write_inspect_logs(tmp_path / "logs", half, task, config)
    samples = read_eval_log(path).samples
    assert {s.scores["answer"].value for s in samples} == {"I"}
    assert {s.metadata["reward"] for s in samples} == {0.0, 0.5}


def test_what_a_model_wrote_is_kept_and_not_trusted(
    run, checkpoints, config, tmp_path, monkeypatch
):
    def hostile(policy, prompts, **settings):
        found = sample(policy, prompts, **settings)
        return replace(found, text=HOSTILE * (found.count // 3))

    monkeypatch.setattr(draw, "sample", hostile)
    found = evaluate(run, checkpoints[:1], TASK, config)
    (path,) = write_inspect_logs(tmp_path / "logs", found, TASK, config)
    log = read_eval_log(path, resolve_attachments=True)
    assert tuple(s.output.completion for s in in_order(log)) == HOSTILE * 10
    assert log.eval.viewer.trust_content is False


def test_another_export_replaces_the_first(evaluation, config, tmp_path, logs):
    again = write_inspect_logs(tmp_path / "logs", evaluation, TASK, config)
    listed = list_eval_logs(str(tmp_path / "logs"))
    assert sorted(log.name.rpartition("/")[2] for log in listed) == sorted(
        path.name for path in again
    )
    assert len(read_eval_log(again[0]).samples) == 30
