"""A user's own prompts and reward: recorded by a training, or in a file."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from entrometer.errors import InvalidValue
from entrometer.tasks.registry import Problem, Score, Split, first_problems

if TYPE_CHECKING:
    from entrometer.runs import UpdateBatch

OWN = "own"
"""Name of the task."""

LARGEST_FILE = 2**28  #: Most bytes of a file of prompts.

MOST_RECORDED = 2048  #: Recorded prompts are read until there are this many.

Reward = Callable[..., Sequence[float | None]]
"""A reward function of TRL: called with `prompts`, `completions` and columns."""


@dataclass(frozen=True, slots=True)
class OwnProblem(Problem):
    """A prompt of the user's, as token ids, as text, or as chat messages."""

    tokens: tuple[int, ...] = ()  #: Token ids; empty for a prompt from a file.
    messages: str = ""  #: Chat messages as JSON; empty for plain text.
    columns: str = "{}"  #: The other columns of a row of the file, as JSON.


@dataclass(frozen=True)
class Own:
    """Prompts of recorded updates or of a file, and a reward function of the user's.

    Recorded prompts are held out: those of the steps in `exclude` are left out.
    """

    updates: str = ""  #: Directory of recorded updates.
    exclude: str = ""  #: Steps whose prompts are left out, with commas between them.
    prompts_file: str = ""  #: JSON lines with `prompt`, or a directory of `datasets`.
    reward: str = ""  #: Reward function as `module:function`; empty for none.
    name = OWN

    def problems(self, split: Split, count: int | None = None) -> Sequence[OwnProblem]:
        """Return the first `count` prompts; the two splits have the same."""
        if self.prompts_file:
            every = _of_file(self.prompts_file)
        else:
            steps = frozenset(int(s) for s in self.exclude.split(",") if s)
            every = _of_updates(self.updates, steps)
        return first_problems(every, split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the prompt as text; the messages or token ids if it has no text."""
        own = _own(problem)
        return own.question or own.messages or " ".join(map(str, own.tokens))

    def token_ids(self, problem: Problem, tokenizer: Any) -> list[int]:
        """Return the prompt's token ids: recorded ones, or by the chat template."""
        own = _own(problem)
        if own.tokens:
            return list(own.tokens)
        if not own.messages:
            return list(tokenizer(own.question)["input_ids"])
        if tokenizer.chat_template is None:
            raise InvalidValue(
                "expected a tokenizer with a chat template, which prompts of messages "
                "need, got none; give prompts as text, or add a template"
            )
        chat = json.loads(own.messages)
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
        # Some versions return the ids with their mask.
        return list(ids["input_ids"] if hasattr(ids, "keys") else ids)

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Raise: a user's prompts have no demonstrations."""
        raise InvalidValue(
            "expected a task with demonstrations for imitation, got prompts of your "
            "own; set --imitation.steps 0"
        )

    def score(self, problem: Problem, response: str) -> Score:
        """Return the reward of one response as the answer's score."""
        if _own(problem).tokens:
            # Its text is the tokenizer's, which `rewards` is given.
            raise InvalidValue(
                "expected a prompt as text, got a recorded one as token ids; call "
                "`rewards` with its text"
            )
        (reward,) = self.rewards([problem], [self.prompt(problem)], [response])
        return Score(reward, 0.0)

    def rewards(
        self,
        problems: Sequence[Problem],
        texts: Sequence[str],
        responses: Sequence[str],
    ) -> list[float]:
        """Return the rewards of responses; NaN without a reward function.

        `texts` are the prompts as text. As with TRL, the function gets messages in
        place of texts if the prompt is a chat.
        """
        if not self.reward:
            return [math.nan] * len(responses)
        chats = [_own(problem).messages for problem in problems]
        prompts = [json.loads(c) if c else t for c, t in zip(chats, texts, strict=True)]
        completions = [
            [{"role": "assistant", "content": r}] if c else r
            for c, r in zip(chats, responses, strict=True)
        ]
        rows = [json.loads(_own(p).columns) for p in problems]
        names = {name for row in rows for name in row}
        columns = {name: [row.get(name) for row in rows] for name in sorted(names)}
        function = reward_function(self.reward)
        try:
            found = function(prompts=prompts, completions=completions, **columns)
        # A user's function may raise anything.
        except Exception as error:
            has = ", ".join(["prompts", "completions", *columns])
            raise InvalidValue(
                f"expected rewards from {self.reward}, got {type(error).__name__}: "
                f"{error}; it is called with {has}: prompts that a training recorded "
                "are plain text without other columns, so give --prompts-file if it "
                "reads more"
            ) from error
        if len(found) != len(responses):
            raise InvalidValue(
                f"expected {len(responses)} rewards from {self.reward}, one per "
                f"completion, got {len(found)}; return a list of that length"
            )
        return [math.nan if r is None else float(r) for r in found]


def reward_function(text: str) -> Reward:
    """Return the function that `module:function` names; the module may be a file here.

    The user names it on the command line, so its code is trusted.
    """
    # Imported here for the reason of `_of_updates`.
    from entrometer.runs.user_function import user_function

    example = "--reward rewards:correct for `def correct(...)` in rewards.py"
    return user_function(text, what="reward", example=example)


@lru_cache(maxsize=8)
def _of_updates(directory: str, exclude: frozenset[int]) -> tuple[OwnProblem, ...]:
    # Imported here, because tasks and their verifier work without NumPy and pyarrow.
    from entrometer.runs import nearest_updates, read_update, update_path

    run = Path(directory).parent
    paths = [update_path(run, step) for step in sorted(exclude)]
    measured = {t for p in paths if p.is_file() for t in _prompts(read_update(p))}
    held_out: dict[tuple[int, ...], None] = {}
    # The nearest first: a training of a thousand steps need not be read whole.
    for path in nearest_updates(directory, min(exclude, default=0)):
        if len(held_out) >= MOST_RECORDED:
            break
        if path not in paths:
            held_out |= dict.fromkeys(_prompts(read_update(path)))
            held_out = {t: None for t in held_out if t not in measured}
    if not held_out:
        raise InvalidValue(
            f"expected recorded prompts in {directory} besides the {len(measured)} of "
            "the measured update, got none; train more steps, or give --prompts-file"
        )
    return tuple(
        OwnProblem(i, "", "", tokens=tokens) for i, tokens in enumerate(held_out)
    )


def _prompts(batch: "UpdateBatch") -> list[tuple[int, ...]]:
    return [tuple(tokens.tolist()) for tokens in batch.prompt_tokens]


@lru_cache(maxsize=8)
def _of_file(path: str) -> tuple[OwnProblem, ...]:
    rows = _rows(Path(path).expanduser())
    problems = []
    for i, (line, row) in enumerate(rows):
        prompt = row.get("prompt") if isinstance(row, dict) else None
        if not isinstance(prompt, str | list) or not prompt:
            raise InvalidValue(
                f"{path}:{line}: expected a `prompt`, as text or as chat messages, "
                f"got {str(prompt)[:80]!r}; add the column"
            )
        chat = json.dumps(prompt) if isinstance(prompt, list) else ""
        rest = {k: v for k, v in row.items() if k != "prompt"}
        text = "" if chat else str(prompt)
        columns = json.dumps(rest, default=str, sort_keys=True)
        problems.append(OwnProblem(i, text, columns, messages=chat, columns=columns))
    if not problems:
        raise InvalidValue(f"{path}: expected at least one prompt, got none; add some")
    return tuple(problems)


def _rows(path: Path) -> list[tuple[int, Any]]:
    """Return the rows of a file or dataset, each with the number of its line or row."""
    if path.is_dir():
        from datasets import load_from_disk

        loaded: Any = load_from_disk(str(path))
        split = loaded.get("train", loaded) if isinstance(loaded, dict) else loaded
        return list(enumerate(split, 1))
    if not path.is_file():
        raise InvalidValue(f"expected prompts in {path}, got no such file; name it")
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidValue(
            f"{path}: expected at most {LARGEST_FILE} bytes, got "
            f"{path.stat().st_size}; use a part of it"
        )
    rows = []
    # Split at newlines alone: JSON may hold other separators, such as U+2028.
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append((number, json.loads(line)))
        # Bytes that are no UTF-8 are a ValueError too.
        except (ValueError, RecursionError) as error:
            raise InvalidValue(
                f"{path}:{number}: expected a JSON object with `prompt` ({error}); "
                "correct the line"
            ) from error
    return rows


def _own(problem: Problem) -> OwnProblem:
    if not isinstance(problem, OwnProblem):
        raise InvalidValue(
            f"expected a problem of the task {OWN!r}, got {type(problem).__name__}; "
            "take it from `problems`"
        )
    return problem
