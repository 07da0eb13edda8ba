"""Rows of question and answer from files that are not trusted."""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from entrometer.errors import EntrometerError, nearest_name
from entrometer.tasks.task import Split

if TYPE_CHECKING:
    from entrometer.runs.locations import HubName

LARGEST_FILE = 2**26
LONGEST_LINE = 2**16

_HUB_FILE = "main/{split}-00000-of-00001.parquet"


class ProblemsNotFound(EntrometerError, FileNotFoundError):
    """Problems that are neither on this machine nor to be fetched."""


class UnreadableProblems(EntrometerError, ValueError):
    """A file of problems that does not keep to its format."""


def find_file(path: str, split: Split, *, remedy: str) -> Path:
    """Return the file of a split, in a directory or fetched from the hub.

    A path that exists comes first. Only `owner/name@commit` is looked for on the hub,
    and only if no directory `owner` is here: a mistyped path is then told, not sent
    away.
    """
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
        # Here: tasks are imported without tables and arrays.
        from entrometer.runs.locations import hub_name

        name = hub_name(path)
        if name is not None:
            return _fetch(name, split, remedy)
    raise ProblemsNotFound(f"{path}: expected a directory, got no such one. {remedy}")


def _fetch(name: "HubName", split: Split, remedy: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download

        file = _HUB_FILE.format(split=split.value)
        return Path(
            hf_hub_download(
                name.repository, file, repo_type="dataset", revision=name.revision
            )
        )
    except Exception as error:  # The hub's own, the network's, a bad name: all say why.
        reason = shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
        raise ProblemsNotFound(
            f"{'@'.join(name)}: neither a directory here nor to be had from the "
            f"Hugging Face hub ({reason}). {remedy}"
        ) from error


def read_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place, question and answer of each row of a jsonl or Parquet file."""
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise UnreadableProblems(
            f"{path}: expected at most {LARGEST_FILE} bytes, got {size}. Name a file "
            "of problems, or cut it in parts."
        )
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _lines(path)
    for place, row in rows:
        texts = [row.get("question"), row.get("answer")]
        if not all(map(_is_text, texts)):
            raise UnreadableProblems(
                f"{place}: expected texts named question and answer, got "
                f"{shorten(repr(row), 200, placeholder=' …')}. Correct the line, or "
                "take it out."
            )
        yield place, str(texts[0]), str(texts[1])


def _is_text(value: Any) -> bool:
    # JSON can carry halves of a surrogate pair, which no tokenizer takes.
    return (
        isinstance(value, str)
        and bool(value.strip())
        and not any("\ud800" <= character <= "\udfff" for character in value)
    )


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            place = f"{path}:{number}"
            if len(line) > LONGEST_LINE:
                raise UnreadableProblems(
                    f"{place}: expected a line of at most {LONGEST_LINE} bytes, got a "
                    "longer one. Take it out."
                )
            if line.strip():
                yield place, _object(place, line)


def _object(place: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableProblems(
            f"{place}: expected a JSON object on the line ({type(error).__name__}: "
            f"{shorten(str(error), 100, placeholder=' …')}). Copy the file again, or "
            "take the line out."
        ) from error
    if not isinstance(row, dict):
        raise UnreadableProblems(
            f"{place}: expected a JSON object, got a {type(row).__name__}. Correct the "
            "line, or take it out."
        )
    return row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    # Here: problems that are generated need no tables.
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
