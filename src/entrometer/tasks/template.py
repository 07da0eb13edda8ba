"""How every task is asked and answered: a thought between tags, then an answer."""

from typing import NamedTuple

THINK, END_THINK = "<think>", "</think>"
ANSWER, END_ANSWER = "<answer>", "</answer>"
TAGS = (THINK, END_THINK, ANSWER, END_ANSWER)

LONGEST_ANSWER = 256
"""Characters of an answer that are looked at: verifiers parse what they are given."""


class ParsedResponse(NamedTuple):
    """The two parts of a response that keeps to the format, without outer blanks."""

    thought: str
    answer: str


def prompt(question: str) -> str:
    """Return the text that the policy continues with its response.

    Short, since each of its tokens is computed at each step of training.
    """
    return f"{question}\nUse {THINK} then {ANSWER}.\n"


def response(thought: str, answer: str) -> str:
    """Return a response in the format; `parse` gives both parts back."""
    return f"{THINK}{thought}{END_THINK}{ANSWER}{answer}{END_ANSWER}"


def parse(text: str) -> ParsedResponse | None:
    """Return the parts of a response that keeps to the format strictly, else None.

    Each of the four tags occurs once and in order, with nothing but blanks before,
    between and after the blocks. Time is linear in the length of the text.
    """
    if any(text.count(tag) != 1 for tag in TAGS):
        return None
    before, _, rest = text.partition(THINK)
    thought, _, rest = rest.partition(END_THINK)
    between, _, rest = rest.partition(ANSWER)
    answer, closed, after = rest.partition(END_ANSWER)
    # A tag that came too early is not found again in what is left of the text.
    if not closed or (before + between + after).strip():
        return None
    return ParsedResponse(thought.strip(), answer.strip())


def extract_answer(text: str) -> str | None:
    """Return what the last answer block holds, whatever else the text may be.

    None where there is no complete block, or where it is longer than
    `LONGEST_ANSWER`: no answer to a problem is, and the text is untrusted.
    """
    before, closed, _ = text.rpartition(END_ANSWER)
    _, opened, answer = before.rpartition(ANSWER)
    if not (closed and opened) or len(answer) > LONGEST_ANSWER:
        return None
    return answer.strip()
