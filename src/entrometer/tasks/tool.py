"""Tasks whose tool replies in the middle of a response."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from entrometer.errors import InvalidValue
from entrometer.tasks.registry import Problem, Task


@runtime_checkable
class TaskWithTool(Task, Protocol):
    """A task with a tool: text of another program becomes part of a response.

    The tool gets untrusted text of any length, and must never evaluate it. The same
    text must get the same reply on every machine.
    """

    @property
    def call_end(self) -> str:
        """Text that completes a call; "" if calls end with an EOS token alone."""
        ...

    def reply(self, problem: Problem, text: str) -> str | None:
        """Return what follows the response so far; None for nothing.

        Asked after each token that completes a call, and after EOS: a reply there
        begins another turn.
        """
        ...


@dataclass(frozen=True)
class ProblemTool:
    """The tool of a task, which is called by the index of a problem."""

    task: TaskWithTool
    problems: Sequence[Problem]

    @property
    def call_end(self) -> str:
        """Text that completes a call."""
        return self.task.call_end

    def reply(self, prompt_id: int, text: str) -> str | None:
        """Return what follows the response so far; None for nothing."""
        return self.task.reply(self.problems[prompt_id], text)


def tool_of(task: Task, problems: Sequence[Problem]) -> ProblemTool | None:
    """Return the tool that a task has for these problems; None for no tool."""
    return ProblemTool(task, problems) if isinstance(task, TaskWithTool) else None


class Piece(NamedTuple):
    """A part of a demonstration."""

    text: str
    written: bool  #: Whether the policy is to write it; False for a tool's reply.


def pieces(task: Task, problem: Problem, demonstration: str) -> Iterator[Piece]:
    """Yield the parts of a demonstration, its tool's replies apart from the rest.

    Raises if the text after a call is not the reply.
    """
    end = task.call_end if isinstance(task, TaskWithTool) else ""
    start = place = 0
    while end and (found := demonstration.find(end, place)) >= 0:
        place = found + len(end)
        assert isinstance(task, TaskWithTool)
        reply = task.reply(problem, demonstration[:place])
        if not reply:
            continue
        if not demonstration.startswith(reply, place):
            raise InvalidValue(
                f"expected the reply {reply!r} of the task {task.name!r} after "
                f"{demonstration[start:place]!r}, got "
                f"{demonstration[place : place + len(reply)]!r}; correct its "
                "demonstration"
            )
        yield Piece(demonstration[start:place], True)
        yield Piece(reply, False)
        start = place = place + len(reply)
    if demonstration[start:]:
        yield Piece(demonstration[start:], True)


def refuse_tool(task: Task, server: str) -> None:
    """Raise for a task with a tool: a sampling server would not let it reply."""
    if isinstance(task, TaskWithTool):
        raise InvalidValue(
            f"expected a task without a tool for the sampler {server}, which does not "
            f"let a tool reply, got the task {task.name!r}; leave out --sampler"
        )
