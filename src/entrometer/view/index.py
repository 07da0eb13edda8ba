"""Runs below a directory: kind, model, date, state and headline of each."""

import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, Literal

from entrometer.errors import InvalidValue
from entrometer.report.identity import run_facts, run_name
from entrometer.report.kinds import FinishedRun
from entrometer.report.read import TRAINING
from entrometer.runs.atomic import is_held
from entrometer.runs.complete import MANIFEST, checkpoints
from entrometer.runs.settings import CONFIG
from entrometer.runs.untrusted import read_json
from entrometer.view.files import FILES, require_inside

State = Literal["complete", "incomplete", "running"]
"""`running` while a process has the lock of the run."""

_LIMIT = 2**20
"""Bytes that are read of each of these files: a list needs only names and sentences."""
_DEPTH = 8
"""Folders between the listed directory and a run, with the run's own."""
_SKIPPED = {"passes", "results", "updates"}
"""Folders of a run that contain no runs; elsewhere a folder may have such a name."""
_LONGEST = 400

Marks = tuple[tuple[str, int, int], ...]
"""Name, time of change and size of each file that a row of the list is read from."""


@dataclass(frozen=True)
class Entry:
    """A run, as a row of the list."""

    id: str
    """Known to the server only by this text, which is no path."""
    path: Path
    name: str
    """Its path below the listed directory."""
    title: str
    """What was trained or measured, in a few words."""
    facts: str
    kind: str
    state: State
    headline: str
    """A sentence of its summary, or how many steps a training has taken."""
    planned: int | None
    """Steps that a training was started for."""
    date: str
    newest: float
    """Time of the last change, of a training also by its newest checkpoint."""

    def matches(self, words: str, kind: str) -> bool:
        """Return whether the run is of this kind, if any, and has all of the words."""
        texts = (self.name, self.title, self.facts, self.kind, self.state)
        text = "\0".join((*texts, self.headline)).casefold()
        found = all(word in text for word in words.casefold().split())
        return found and kind in ("", self.kind)


class Index:
    """The runs below a directory; a run is read again once its files have changed."""

    def __init__(self, root: Path, kinds: Collection[str]) -> None:
        """`kinds` are names of experiments, as manifests give them."""
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise InvalidValue(
                f"{root}: expected a directory that contains runs, got "
                f"{'a file' if self.root.exists() else 'no such directory'}; name "
                "one, such as runs"
            )
        self._kinds = {*kinds, TRAINING}
        self._read: dict[Path, tuple[Marks, Entry | None]] = {}
        self._ids: dict[str, Path] = {}
        self._lock = Lock()

    def runs(self) -> list[Entry]:
        """Return every run, the last changed first."""
        with self._lock:
            seen: list[Path] = []
            found = list(self._found(seen))
            self._ids = {entry.id: entry.path for entry in found}
            # Also folders that are no runs: there may be many models, each with a
            # config.json that would be parsed for every list.
            self._read = {path: self._read[path] for path in seen}
        return sorted(found, key=lambda e: (-e.newest, e.name))

    def run(self, identity: str) -> Entry | None:
        """Return a run of the list as it is now; None if there is none with this id."""
        with self._lock:
            path = self._ids.get(identity)
            return self._entry(path) if path is not None else None

    def _found(self, seen: list[Path]) -> Iterator[Entry]:
        """Yield the runs, and add folders that may be runs to `seen`.

        Links are not followed.
        """
        level = [str(self.root)]
        for _ in range(_DEPTH + 1):
            below: list[str] = []
            for folder in level:
                try:
                    entries = list(os.scandir(folder))
                except OSError:
                    continue
                names = {entry.name for entry in entries}
                run = None
                if names & {MANIFEST, CONFIG, "summary.json"}:
                    seen.append(Path(folder))
                    run = self._entry(seen[-1])
                if run is not None:
                    yield run
                below += [
                    e.path
                    for e in entries
                    if not e.name.startswith((".", "checkpoint-"))
                    and not (run is not None and e.name in _SKIPPED)
                    and e.is_dir(follow_symlinks=False)
                ]
            level = below

    def _entry(self, path: Path) -> Entry | None:
        marks = tuple(_marks(path))
        read, entry = self._read.get(path, (None, None))
        # What makes a folder a run may come without a change to these files.
        names = {name for name, _, _ in marks}
        if read != marks or (
            entry is None and (_is_measured(path, names) or _is_trained(path, names))
        ):
            entry = self._row(path, marks)
            self._read[path] = (marks, entry)
        # Locks and checkpoints change without the files that a row is read from.
        return _as_now(entry) if entry else None

    def _row(self, path: Path, marks: Marks) -> Entry | None:
        files = {name: self._json(path / name) for name, _, _ in marks}
        sealed = _object(files.get(MANIFEST, {}).get("about"))
        measured = _is_measured(path, files)
        kind = sealed.get("kind")
        if not isinstance(kind, str) or kind not in self._kinds:
            if measured:
                kind = _short(kind) if isinstance(kind, str) else "unknown"
            elif _is_trained(path, files):
                kind = TRAINING
            else:
                return None
        about = files.get("about.json", {})
        name = path.relative_to(self.root).as_posix()
        run: FinishedRun[Any] = FinishedRun(
            kind=kind,
            name=self.root.name if name == "." else name,
            title="",
            sentences=(),
            warnings=(),
            config=files.get(CONFIG, {}),
            # The list has a column of dates.
            about={k: x for k, x in about.items() if k != "date"},
            tables=SimpleNamespace(),
        )
        newest = max(time for _, time, _ in marks) / 1e9
        planned = run.config.get("steps")
        done = measured and sealed.get("finished") is not False
        return Entry(
            id=hashlib.sha256(os.fsencode(path)).hexdigest()[:16],
            path=path,
            name=run.name,
            title=_short(run_name(run)),
            facts=_short(run_facts(run)),
            kind=kind,
            state="complete" if done else "incomplete",
            headline=_headline(files.get("summary.json", {})),
            planned=planned if isinstance(planned, int) else None,
            date=_written_date(about.get("date")),
            newest=newest,
        )

    def _json(self, path: Path) -> dict[str, Any]:
        """Return the object in a file of a run; empty if it cannot be read."""
        try:
            if path.is_symlink():
                require_inside(path, self.root)
            return read_json(path, limit=_LIMIT)
        except (OSError, ValueError):
            # The run's page says what is wrong with the file.
            return {}


def _marks(path: Path) -> Iterator[tuple[str, int, int]]:
    for name in FILES:
        try:
            about = os.lstat(path / name)
        except OSError:
            continue
        yield name, about.st_mtime_ns, about.st_size


def _as_now(entry: Entry) -> Entry:
    """Return a row with the state and, of a training, the steps as of now."""
    held = is_held(entry.path)
    if entry.kind != TRAINING:
        entry = replace(entry, date=entry.date or _date(entry.newest))
        return replace(entry, state="running") if held else entry
    step, saved = _last_checkpoint(entry.path)
    newest = max(entry.newest, saved)
    done = step is not None and step >= (entry.planned or 0)
    planned = f" of {entry.planned:,}" if entry.planned else ""
    if step is None:
        # A table of metrics may be kept without the checkpoints.
        done = _has_metrics(entry.path)
        headline = "metrics of a training" if done else "no checkpoint yet"
    else:
        headline = f"{step:,}{planned} steps"
    state: State = "running" if held else "complete" if done else "incomplete"
    date = entry.date or _date(newest)
    return replace(entry, state=state, headline=headline, newest=newest, date=date)


def _last_checkpoint(run: Path) -> tuple[int | None, float]:
    """Return step and time of a training's last checkpoint; None and 0 without one."""
    saved = checkpoints(run)
    if not saved:
        return None, 0.0
    step, path = saved[-1]
    try:
        return step, os.lstat(path).st_mtime
    except OSError:
        # Removed since it was listed.
        return step, 0.0


def _is_measured(path: Path, names: Collection[str]) -> bool:
    """Return whether a folder has what an experiment leaves, whatever it is called."""
    return "summary.json" in names and (path / "results").is_dir()


def _is_trained(path: Path, names: Collection[str]) -> bool:
    """Return whether a folder has what a training leaves."""
    return CONFIG in names and (bool(checkpoints(path)) or _has_metrics(path))


def _has_metrics(run: Path) -> bool:
    return (run / "metrics.parquet").is_file()


def _headline(summary: dict[str, Any]) -> str:
    """Return the first sentence with an interval: the first result, not the set-up."""
    sentences = summary.get("sentences")
    listed = sentences if isinstance(sentences, list) else []
    texts = [text for text in listed if isinstance(text, str)]
    with_interval = [text for text in texts if "[" in text]
    return _short(next(iter([*with_interval, *texts]), ""))


def _written_date(written: object) -> str:
    """Return the date that a run names; empty if it names none."""
    if isinstance(written, str) and len(written) >= 16:
        return written[:16].replace("T", " ")
    return ""


def _date(newest: float) -> str:
    """Return a time of change in UTC; empty for a year that has no date."""
    try:
        return datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M")
    except (OSError, OverflowError, ValueError):
        # A file system stores any time that a program sets, also after the year 9999.
        return ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
