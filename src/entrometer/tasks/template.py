"""Format of prompts and responses: a `<think>` block, then an `<answer>` block."""

from typing import NamedTuple

THINK, END_THINK = "<think>", "</think>"
ANSWER, END_ANSWER = "<answer>", "</answer>"
TAGS = (THINK, END_THINK, ANSWER, END_ANSWER)

LONGEST_ANSWER = 256  #: Longest answer in characters that is passed to a verifier.


class ParsedResponse(NamedTuple):
    """The two parts of a response in the format, stripped of white space."""

    thought: str
    answer: str


def prompt(question: str) -> str:
    """Return the text that the policy continues with its response."""
    # Short, because every training step computes each of its tokens.
    return f"{question}\nUse {THINK} then {ANSWER}.\n"


def response(thought: str, answer: str) -> str:
    """Return a response in the format; `parse` recovers both parts."""
    return f"{THINK}{thought}{END_THINK}{ANSWER}{answer}{END_ANSWER}"


def parse(text: str) -> ParsedResponse | None:
    """Return the parts of a response strictly in the format, else None.

    Each of the four tags occurs once and in order, with only white space outside the
    blocks. Time is linear in the length of the text.
    """
    if any(text.count(tag) != 1 for tag in TAGS):
        return None
    before, _, rest = text.partition(THINK)
    thought, _, rest = rest.partition(END_THINK)
    between, _, rest = rest.partition(ANSWER)
    answer, closed, after = rest.partition(END_ANSWER)
    # A tag out of order is missing from the rest of the text, so `closed` is empty.
    if not closed or (before + between + after).strip():
        return None
    return ParsedResponse(thought.strip(), answer.strip())


def extract_answer(text: str) -> str | None:
    """Return the content of the last answer block, whatever the rest of the text.

    None if no block is complete, or the last has over `LONGEST_ANSWER` characters.
    """
    before, closed, _ = text.rpartition(END_ANSWER)
    _, opened, answer = before.rpartition(ANSWER)
    if not (closed and opened) or len(answer) > LONGEST_ANSWER:
        return None
    return answer.strip()
