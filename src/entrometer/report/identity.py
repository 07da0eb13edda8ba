"""Name a run for its readers: its training, checkpoints, loss, prompts and date."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from entrometer.report.kinds import FinishedRun

_MOST = 3
"""Checkpoints that are named; of more, the first, the last and their number."""


_SUBJECT = ("checkpoint", "update", "minibatch")


class Statements(NamedTuple):
    """Sentences or warnings about one checkpoint or update, or about the whole run."""

    subject: str
    """Checkpoint, update and minibatch; empty for the whole run."""
    texts: tuple[str, ...]


def run_name(run: FinishedRun[Any]) -> str:
    """Return `training, checkpoint` of a measurement, else the name of the run."""
    paths = _checkpoints(run)
    if not paths:
        return run.name
    parents = dict.fromkeys(p.parent.name for p in paths)
    # An evaluation in its training's directory names checkpoints as `../../…`.
    trainings = [name for name in parents if name not in ("", "..")]
    names = _shortened(list(dict.fromkeys(p.name for p in paths)))
    return f"{trainings[0]}, {names}" if len(trainings) == 1 else names


def run_facts(run: FinishedRun[Any]) -> str:
    """Return what is known of a run's inputs, in one line."""
    return " · ".join(_facts(run))


def statements(run: FinishedRun[Any], texts: Sequence[str]) -> list[Statements]:
    """Group texts by the checkpoint or update with whose name they begin.

    A text that begins with the name of no row of the tables is about the whole run;
    those come first.
    """
    names = _subjects(run)
    groups: dict[str, list[str]] = {"": []}
    for text in texts:
        found = [name for name in names if text.startswith(f"{name}: ")]
        longest = max(found, key=len, default="")
        rest = text[len(longest) + 2 :] if longest else text
        subject = names.get(longest, "")
        groups.setdefault(subject, []).append(_capital(rest) if longest else rest)
    return [Statements(s, tuple(texts)) for s, texts in groups.items() if texts]


def _facts(run: FinishedRun[Any]) -> Iterator[str]:
    config, about = run.config, run.about
    if _checkpoints(run):
        yield f"run {run.name}"
    elif names := _named_checkpoints(run):
        yield _shortened(names)
    policy, task = config.get("policy"), config.get("task")
    if isinstance(policy, str) and policy:
        yield f"model {policy}"
    # `own` are prompts of the user's, which have no name.
    if isinstance(task, str) and task not in ("", "own"):
        yield f"task {task}"
    if loss := _loss(run):
        yield loss
    if isinstance(prompts := config.get("prompts"), int):
        kind = "prompts per step" if run.kind == "training" else "evaluation prompts"
        yield f"{prompts:,} {kind}"
    if isinstance(precision := config.get("precision"), str):
        yield precision
    if isinstance(date := about.get("date"), str):
        yield date[:10]


def _loss(run: FinishedRun[Any]) -> str:
    """Return trainer and loss as the recorded updates say, or else the settings."""
    losses = run.about.get("losses")
    if isinstance(losses, dict) and losses:
        return "; ".join(dict.fromkeys(map(str, losses.values())))
    loss = run.config.get("intervention")
    return f"loss {loss}" if isinstance(loss, str) and loss else ""


def _checkpoints(run: FinishedRun[Any]) -> list[PurePosixPath]:
    paths = run.config.get("checkpoints")
    if not isinstance(paths, list):
        return []
    return [PurePosixPath(p) for p in paths if isinstance(p, str)]


def _named_checkpoints(run: FinishedRun[Any]) -> list[str]:
    """Return the checkpoints that the main table names, if settings name none."""
    main = next(iter(vars(run.tables).values()), None)
    rows = main if isinstance(main, list) else []
    return list(
        dict.fromkeys(row.checkpoint for row in rows if hasattr(row, _SUBJECT[0]))
    )


def _shortened(names: Sequence[str]) -> str:
    if len(names) <= _MOST:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} checkpoints)"


def _subjects(run: FinishedRun[Any]) -> dict[str, str]:
    """Return each name that a sentence may begin with, and the subject that it means.

    `checkpoint-4, recorded` and `checkpoint-4, recorded, 1/1` are one subject: a batch
    of one minibatch.
    """
    names: dict[str, str] = {}
    for rows in vars(run.tables).values():
        # A training's tables are columns of numbers by step, not rows of subjects.
        for row in rows if isinstance(rows, list) else []:
            parts = [str(getattr(row, c)) for c in _SUBJECT if hasattr(row, c)]
            short = ", ".join(p for p in parts if p != "1/1")
            names[", ".join(parts)] = names[short] = short
    return {name: subject for name, subject in names.items() if name}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
