import json
import os
import re
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.errors import InvalidValue
from entrometer.tasks import (
    GSM8K,
    Problem,
    ProblemsNotFound,
    Score,
    Split,
    UnreadableProblems,
    template,
)

COMMIT = 40 * "a"
OURS = Path(__file__).parent / "data" / "gsm8k-style.jsonl"
REAL = Path(__file__).parents[2] / (
    os.environ.get("ENTROMETER_GSM8K") or "../shared/gsm8k"
)


@pytest.fixture
def task(tmp_path) -> GSM8K:
    for split in Split:
        shutil.copy(OURS, tmp_path / f"{split.value}.jsonl")
    return GSM8K(str(tmp_path))


def write(path: Path, *lines: str) -> GSM8K:
    content = "".join(f"{line}\n" for line in lines)
    (path / "train.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    return GSM8K(str(path))


def line(question="How many?", answer="One.\n#### 1", **more) -> str:
    return json.dumps({"question": question, "answer": answer, **more})


def test_problems_are_the_lines_in_order(task):
    problems = task.problems(Split.TEST)
    assert [p.index for p in problems] == list(range(12))
    answers = ["18", "1080", "-25", "7.5", "8", "50000", "5", "2", "76", "4", "128"]
    assert [p.answer for p in problems] == [*answers, "0"]
    assert problems[0].question.startswith("Mira picks 14 plums")
    assert list(task.problems(Split.TEST, 3)) == list(problems[:3])
    assert list(task.problems(Split.TEST, 0)) == []


def test_a_solution_has_neither_calculator_marks_nor_the_answer_line(task):
    first, *_ = task.problems(Split.TRAIN)
    assert first.solution == (
        "Mira picks 14 + 9 = 23 plums.\nAfter eating, 23 - 5 = 18 plums are left."
    )
    comparison = task.problems(Split.TRAIN)[6].solution
    assert "because 20 < 24, so she hears 20 / 4 = 5 songs." in comparison


def test_every_demonstration_is_right_and_in_the_format(task):
    for problem in task.problems(Split.TRAIN):
        demonstration = task.demonstration(problem, Random(0))
        assert template.parse(demonstration) == (problem.solution, problem.answer)
        assert task.score(problem, demonstration) == Score(1.0, 1.0)


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("<think>a</think><answer>18</answer>", (1, 1)),
        ("<think>a</think> <answer>$18.00</answer>\n", (1, 1)),
        ("<think>a</think><answer>19</answer>", (0, 1)),
        ("<think>a</think><answer></answer>", (0, 1)),
        ("<think>a</think><answer>14 + 9 - 5</answer>", (0, 1)),
        ("<think>a</think><answer>17 or 18</answer>", (0, 1)),
        ("<answer>18</answer>", (1, 0)),
        ("<answer>17</answer> no, <answer>18</answer>", (1, 0)),
        ("<answer>18</answer> no, <answer>17</answer>", (0, 0)),
        ("18", (0, 0)),
        ("", (0, 0)),
        ("<think>a</think><answer>9^{9^9}</answer>", (0, 1)),
        ("<think>a</think><answer>" + "(" * 200 + "</answer>", (0, 1)),
        ("<answer>" * 100_000, (0, 0)),
    ],
)
def test_answer_and_format_are_judged_apart(task, response, score):
    assert task.score(task.problems(Split.TEST)[0], response) == score


def test_the_prompt_is_the_questions(task):
    problem = task.problems(Split.TEST)[0]
    assert task.prompt(problem) == template.prompt(problem.question)


def test_a_demonstration_needs_the_worked_answer(task):
    with pytest.raises(InvalidValue, match="got a Problem; take it from `problems`"):
        task.demonstration(Problem(0, "How many?", "1"), Random(0))


@pytest.mark.parametrize("count", [-1, 13])
def test_more_problems_than_there_are_is_an_error(task, count):
    with pytest.raises(InvalidValue, match=f"0 to 12 .* test, got {count}; ask for at"):
        task.problems(Split.TEST, count)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"question": "a"', "JSON object on the line"),
        ("[1, 2]", "got a list"),
        ("[" * 60_000, "RecursionError"),
        ('"\\ud800', "JSON object"),
        ("\udcff", "UnicodeDecodeError"),
        (line(question="\ud800?"), "texts named question and answer"),
        (line(question=3), "texts named question and answer"),
        (line(question="  "), "texts named question and answer"),
        ('{"question": "a"}', "texts named question and answer"),
        (line(answer="One."), "ends in '#### ' and a number, got 'One.'"),
        (line(answer="One.\n#### one"), "ends in '#### '"),
        (line(answer="#### 1\n#### "), "ends in '#### '"),
        (line(answer="#### " + "1" * 400), "ends in '#### '"),
        (line(answer="</think>\n#### 1"), "expected text without <think>"),
        (line(question="x" * 70_000), "65536 bytes at most"),
    ],
)
def test_a_bad_line_is_told_by_file_and_number(tmp_path, bad, message):
    task = write(tmp_path, line(), "", line(extra="is no harm"), bad, line())
    with pytest.raises(UnreadableProblems, match=rf"train\.jsonl:4: .*{message}"):
        task.problems(Split.TRAIN)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    task = write(tmp_path, line())
    os.truncate(tmp_path / "train.jsonl", 2**27)
    with pytest.raises(UnreadableProblems, match="at most 67108864 bytes"):
        task.problems(Split.TRAIN)


def test_a_missing_split_or_directory_is_told_with_the_remedy(tmp_path):
    task = write(tmp_path, line())
    with pytest.raises(ProblemsNotFound, match=r"test\.jsonl: no .*ENTROMETER_GSM8K"):
        task.problems(Split.TEST)
    for path in [tmp_path / "nowhere", tmp_path / "train.jsonl"]:
        with pytest.raises(ProblemsNotFound, match="expected a directory"):
            GSM8K(str(path)).problems(Split.TRAIN)


def test_the_path_is_the_environments_else_the_hubs(monkeypatch):
    monkeypatch.setenv("ENTROMETER_GSM8K", "/somewhere")
    assert GSM8K().path == "/somewhere"
    monkeypatch.delenv("ENTROMETER_GSM8K")
    assert re.fullmatch("openai/gsm8k@[0-9a-f]{40}", GSM8K().path)


def test_problems_come_from_the_hub_where_no_directory_is_named(monkeypatch, tmp_path):
    rows = [json.loads(row) for row in OURS.read_text("utf-8").splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    asked = []

    def download(name, file, *, repo_type, revision):
        asked.append((name, file, repo_type, revision))
        return str(tmp_path / "x.parquet")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    problems = GSM8K(f"openai/gsm8k@{COMMIT}").problems(Split.TEST)
    assert asked == [
        ("openai/gsm8k", "main/test-00000-of-00001.parquet", "dataset", COMMIT)
    ]
    assert len(problems) == 12
    assert problems[1].answer == "1080"


def test_problems_of_a_hub_name_without_a_commit_are_refused(monkeypatch):
    def download(*_, **__):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for name in ("openai/gsm8k", "openai/gsm8k@main"):
        with pytest.raises(InvalidValue, match="write openai/gsm8k@<40 hex digits>"):
            GSM8K(name).problems(Split.TEST)


def test_a_file_of_the_hub_that_is_damaged_is_told(monkeypatch, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1" * 10)
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download", lambda *_, **__: tmp_path / "x.parquet"
    )
    with pytest.raises(UnreadableProblems, match=r"x\.parquet.*fetch it again"):
        GSM8K(f"openai/gsm8k@{COMMIT}").problems(Split.TEST)


def test_a_hub_out_of_reach_is_told_with_the_remedy(monkeypatch):
    def download(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(ProblemsNotFound, match=r"no network.*Set ENTROMETER_GSM8K"):
        GSM8K(f"openai/gsm8k@{COMMIT}").problems(Split.TEST)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no GSM8K in {REAL}")
def test_every_problem_of_gsm8k_is_read_and_its_demonstration_scores():
    task = GSM8K(str(REAL))
    counts = {split: len(task.problems(split)) for split in Split}
    assert counts == {Split.TRAIN: 7473, Split.TEST: 1319}
    for split in Split:
        for problem in task.problems(split):
            demonstration = task.demonstration(problem, Random(0))
            assert task.score(problem, demonstration) == Score(1.0, 1.0)
            assert "<<" not in demonstration
            assert ">>" not in demonstration
