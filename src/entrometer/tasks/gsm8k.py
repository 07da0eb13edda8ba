"""GSM8K: word problems of primary school, each with a worked answer."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random

from entrometer.errors import InvalidValue
from entrometer.tasks import template
from entrometer.tasks.gsm8k_files import UnreadableProblems, find_file, read_rows
from entrometer.tasks.task import Problem, Score, Split, first
from entrometer.tasks.verifier import verify_number

ENVIRONMENT = "ENTROMETER_GSM8K"
HUB_NAME = "openai/gsm8k@740312add88f781978c0658806c59bc2815b9866"

# `48/2 = <<48/2=24>>24`: what a calculator was told, beside what it answered.
_CALCULATOR = re.compile(r"<<.*?>>")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class WorkedProblem(Problem):
    """A problem with the way to its answer."""

    solution: str
    """Line by line, without the answer at its end."""


@dataclass(frozen=True)
class GSM8K:
    """Problems of GSM8K, from files in its format or from the Hugging Face hub."""

    path: str = field(
        default_factory=lambda: os.environ.get(ENVIRONMENT) or HUB_NAME,
    )
    """Directory with `train.jsonl` and `test.jsonl`, or a name on the hub with its
    commit, `owner/name@commit`. By default what the environment variable
    ENTROMETER_GSM8K holds, else openai/gsm8k at a fixed commit."""

    name = "gsm8k"
    """How the registry calls it."""

    def problems(
        self, split: Split, count: int | None = None
    ) -> Sequence[WorkedProblem]:
        """Return the first `count` problems of a split; all of them for None."""
        found = _read(find_file(self.path, split, remedy=_REMEDY))
        return first(found, split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return template.prompt(problem.question)

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return the worked answer in the format; there is one, so no draw is made."""
        if not isinstance(problem, WorkedProblem):
            raise InvalidValue(
                f"expected a problem with its solution, got a {type(problem).__name__};"
                " take it from `problems`"
            )
        return template.response(problem.solution, problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        """Judge a response: the last answer block, and the format by itself."""
        answer = template.extract_answer(response)
        return Score(
            answer=float(answer is not None and verify_number(problem.answer, answer)),
            format=float(template.parse(response) is not None),
        )


_REMEDY = (
    f"Set {ENVIRONMENT} to a directory with train.jsonl and test.jsonl, or leave it "
    f"unset where the hub can be reached, to fetch {HUB_NAME}."
)


@lru_cache(maxsize=8)
def _read(path: Path) -> tuple[WorkedProblem, ...]:
    return tuple(
        _problem(index, place, question, answer)
        for index, (place, question, answer) in enumerate(read_rows(path))
    )


def _problem(index: int, place: str, question: str, answer: str) -> WorkedProblem:
    worked, _, final = answer.rpartition("####")
    # 1,080 in some problems; a comma means nothing else in the format.
    number = final.strip().replace(",", "")
    if not _NUMBER.fullmatch(number):
        raise UnreadableProblems(
            f"{place}: expected an answer that ends in '#### ' and a number, got "
            f"{answer[-80:]!r}. Correct the line, or take it out."
        )
    if any(tag in text for tag in template.TAGS for text in (question, answer)):
        raise UnreadableProblems(
            f"{place}: expected text without {' or '.join(template.TAGS)}, which mark "
            "the parts of a response, got one of them. Take the line out."
        )
    solution = _CALCULATOR.sub("", worked).strip()
    return WorkedProblem(index, question.strip(), number, solution)
