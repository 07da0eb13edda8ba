"""GSM8K: grade-school word problems, each with a worked solution."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from entrometer.errors import EntrometerError, InvalidValue, nearest_name
from entrometer.tasks import template
from entrometer.tasks.registry import Problem, Score, Split, first_problems, register
from entrometer.tasks.verifier import score_number

if TYPE_CHECKING:
    from entrometer.runs.locations import HubName

ENVIRONMENT = "ENTROMETER_GSM8K"  #: Variable that holds the default path.
HUB_NAME = "openai/gsm8k@740312add88f781978c0658806c59bc2815b9866"
LARGEST_FILE = 2**26  #: Bytes of a file of problems, at most.
LONGEST_LINE = 2**16  #: Bytes of a line of it, at most.

_HUB_FILE = "main/{split}-00000-of-00001.parquet"
_REMEDY = (
    f"Set {ENVIRONMENT} to a directory with train.jsonl and test.jsonl, or leave it "
    f"unset where the hub can be reached, to fetch {HUB_NAME}."
)

_CORRECT = "Correct or delete the line."

# Calculator annotations, `<<48/2=24>>` in `48/2 = <<48/2=24>>24`.
_CALCULATOR = re.compile(r"<<.*?>>")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,6})?")


class ProblemsNotFound(EntrometerError, FileNotFoundError):
    """The problems are neither on this machine nor on the hub."""


class UnreadableProblems(EntrometerError, ValueError):
    """A file of problems is too large, damaged, or not in GSM8K's format."""


@dataclass(frozen=True, slots=True)
class WorkedProblem(Problem):
    """A problem with its worked solution."""

    solution: str  #: The steps, without the final answer.


@register("gsm8k")
@dataclass(frozen=True)
class GSM8K:
    """Problems of GSM8K, from files in its format or from the Hugging Face hub."""

    #: Directory with `train.jsonl` and `test.jsonl`, or `owner/name@commit` on the hub.
    #: By default the variable ENTROMETER_GSM8K, else openai/gsm8k at a fixed commit.
    path: str = field(default_factory=lambda: os.environ.get(ENVIRONMENT) or HUB_NAME)
    name = "gsm8k"  #: Name in the registry.

    def problems(
        self, split: Split, count: int | None = None
    ) -> Sequence[WorkedProblem]:
        """Return the first `count` problems of a split; all of them for None."""
        problems = _read(find_file(self.path, split, remedy=_REMEDY))
        return first_problems(problems, split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return template.prompt(problem.question)

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return the worked solution in the format; `random` is not used."""
        if not isinstance(problem, WorkedProblem):
            raise InvalidValue(
                f"expected a `WorkedProblem`, got a {type(problem).__name__};"
                " take it from `problems`"
            )
        return template.response(problem.solution, problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        """Return the scores of the last answer block and of the format."""
        return score_number(problem.answer, response)


@lru_cache(maxsize=8)
def _read(path: Path) -> tuple[WorkedProblem, ...]:
    return tuple(_problem(index, *row) for index, row in enumerate(read_rows(path)))


def _problem(index: int, place: str, question: str, answer: str) -> WorkedProblem:
    worked, _, final = answer.rpartition("####")
    # Some answers have thousands separators (1,080); commas have no other meaning.
    number = final.strip().replace(",", "")
    if not _NUMBER.fullmatch(number):
        raise UnreadableProblems(
            f"{place}: expected an answer that ends in '#### ' and a number, got "
            f"{answer[-80:]!r}. {_CORRECT}"
        )
    if any(tag in text for tag in template.TAGS for text in (question, answer)):
        raise UnreadableProblems(
            f"{place}: expected text without {' or '.join(template.TAGS)}, which mark "
            f"the parts of a response, got one of them. {_CORRECT}"
        )
    solution = _CALCULATOR.sub("", worked).strip()
    return WorkedProblem(index, question.strip(), number, solution)


def find_file(path: str, split: Split, *, remedy: str) -> Path:
    """Return the file of a split, in the directory `path` or fetched from the hub."""
    # An existing directory `owner` means a mistyped path, which is not sent to the hub.
    directory = Path(path).expanduser().absolute()
    if directory.is_dir():
        file = directory / f"{split.value}.jsonl"
        if file.is_file():
            return file
        here = [entry.name for entry in directory.iterdir()]
        raise ProblemsNotFound(
            f"{file}: no such file.{nearest_name(file.name, here)} {remedy}"
        )
    if not directory.exists() and not directory.parent.is_dir():
        # Imported here, because tasks work without NumPy and pyarrow.
        from entrometer.runs.locations import hub_name

        name = hub_name(path)
        if name is not None:
            return _fetch(name, split, remedy)
    raise ProblemsNotFound(f"{path}: expected a directory, got none. {remedy}")


def _fetch(name: "HubName", split: Split, remedy: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download

        file = _HUB_FILE.format(split=split.value)
        source: dict[str, Any] = {"repo_type": "dataset", "revision": name.revision}
        return Path(hf_hub_download(name.repository, file, **source))
    except Exception as error:  # Errors of hub, network and name all give a reason.
        reason = shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
        raise ProblemsNotFound(
            f"{'@'.join(name)}: expected a directory here or a dataset on the Hugging "
            f"Face hub, got neither ({reason}). {remedy}"
        ) from error


def read_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield `path:row`, question and answer of each row of a jsonl or Parquet file."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise UnreadableProblems(
            f"{path}: expected at most {LARGEST_FILE} bytes, got {size}. Shorten it."
        )
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _lines(path)
    for place, row in rows:
        texts = [row.get("question"), row.get("answer")]
        if not all(map(_is_text, texts)):
            raise UnreadableProblems(
                f"{place}: expected texts named question and answer, got "
                f"{shorten(repr(row), 200, placeholder=' …')}. {_CORRECT}"
            )
        yield place, str(texts[0]), str(texts[1])


def _is_text(value: Any) -> bool:
    # JSON can contain half a surrogate pair, which no tokenizer accepts.
    text = isinstance(value, str) and bool(value.strip())
    return text and not any("\ud800" <= character <= "\udfff" for character in value)


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            place = f"{path}:{number}"
            if len(line) > LONGEST_LINE:
                raise UnreadableProblems(
                    f"{place}: expected {LONGEST_LINE} bytes at most. {_CORRECT}"
                )
            if line.strip():
                yield place, _object(place, line)


def _object(place: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableProblems(
            f"{place}: expected a JSON object on the line ({type(error).__name__}: "
            f"{shorten(str(error), 100, placeholder=' …')}). {_CORRECT}"
        ) from error
    if not isinstance(row, dict):
        raise UnreadableProblems(
            f"{place}: expected a JSON object, got a {type(row).__name__}. {_CORRECT}"
        )
    return row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    # Imported here, because generated problems need no pyarrow.
    from entrometer.runs import DamagedFile
    from entrometer.runs.parquet import read_parquet

    try:
        rows = read_parquet(
            path,
            lambda table: table.select(["question", "answer"]).to_pylist(),
            expected="a table with question and answer",
            remedy="fetch it again",
            as_objects=True,
        )
    except (DamagedFile, OSError) as error:
        raise UnreadableProblems(str(error)) from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}:{number}", row
