"""A finished run as a folder or one file to share: page, tables, settings and a card.

What is exported is again a run: `entrometer report` and `view` read it. Its page is
drawn from the exported tables, so it shows nothing that they do not hold.
"""

import tempfile
import zipfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from entrometer.errors import InvalidValue
from entrometer.report.card import card
from entrometer.report.kinds import FinishedRun
from entrometer.report.page import write_report
from entrometer.report.read import TRAINING, Kinds, TrainingTables, read_runs
from entrometer.runs import (
    DamagedFile,
    publish,
    seal,
    verified,
    write_json,
    write_metrics,
)
from entrometer.runs.complete import MANIFEST
from entrometer.runs.private_paths import without_paths
from entrometer.runs.rows import table_classes, write_rows
from entrometer.runs.settings import CONFIG
from entrometer.runs.tables.texts import Text, TokenId
from entrometer.runs.untrusted import JSON_LIMIT, parse_json

LEFT_OUT = "…"
"""What stands for each text that was left out; the id of a token becomes -1."""

CARD = "README.md"
_EXPORTED = "exported"
_EARLIEST = (1980, 1, 1, 0, 0, 0)


class Exported(NamedTuple):
    """What was written, and how much of the run was left out of it."""

    path: Path
    texts: int
    """Number of texts of prompts, responses and tokens that were left out."""
    paths: int
    """Number of paths of which only the last part was kept."""


def export_run(
    run: Path, out: Path, kinds: Kinds, *, texts: bool = False, paths: bool = False
) -> Exported:
    """Write a finished run to the folder `out`, or to one file if `out` ends in .zip.

    The same run gives the same bytes. An earlier export at `out` is replaced; anything
    else there is refused.

    Args:
        run: Directory of the finished run.
        out: The folder or file to write.
        kinds: Kinds of runs by the name that manifests give.
        texts: Keep prompts, responses and tokens.
        paths: Keep paths as they are, in place of their last part.
    """
    _require_free(out)
    (read,) = read_runs([run], kinds)
    left_texts, left_paths = 0, 0
    if not texts:
        read, left_texts = _without_texts(read)
    if not paths:
        read, left_paths = _without_paths(read)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as staged:
        # The page names a run by its folder.
        folder = Path(staged) / read.name.replace("/", "-")
        folder.mkdir()
        _write(read, folder)
        about: dict[str, Any] = {"kind": read.kind, _EXPORTED: True}
        if read.kind != TRAINING:
            about["finished"] = True
        # Sealed twice: the page is drawn from the sealed tables, and belongs to them.
        seal(folder, about=about)
        write_report([folder], folder / "report.html", kinds)
        text = card(read, _table_sizes(read), left_texts, left_paths)
        (folder / CARD).write_text(text, encoding="utf-8")
        if out.suffix == ".zip":
            seal(folder, about=about)
            _pack(folder, Path(staged) / out.name)
            (Path(staged) / out.name).replace(out)
        else:
            seal(folder, about=about, destination=out)
            publish(folder, out)
    return Exported(out, left_texts, left_paths)


def _row_classes(run: FinishedRun[Any]) -> dict[str, type]:
    """Return the row class of each table; none of a training, which has columns."""
    if isinstance(run.tables, TrainingTables):
        return {}
    return table_classes(type(run.tables))


def _table_sizes(run: FinishedRun[Any]) -> dict[str, int]:
    """Return the number of rows of each table file, by its path."""
    if isinstance(run.tables, TrainingTables):
        return {
            f"{name}.parquet": len(columns["step"])
            for name, columns in vars(run.tables).items()
            if columns is not None
        }
    names = _row_classes(run)
    return {f"results/{n}.parquet": len(getattr(run.tables, n)) for n in names}


def _require_free(out: Path) -> None:
    if not out.exists():
        return
    if out.suffix == ".zip":
        free = _is_exported_file(out)
    else:
        about = verified(out, names=()) if out.is_dir() else {}
        free = out.is_dir() and not any(out.iterdir())
        free = free or (about or {}).get(_EXPORTED) is True
    if not free:
        raise InvalidValue(
            f"{out}: expected a new folder or .zip file, or an earlier export, got "
            "something else; name another place with --out"
        )


def _is_exported_file(path: Path) -> bool:
    """Return whether a zip file is an export: its one manifest says so."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as packed:
        found = [x for x in packed.infolist() if Path(x.filename).name == MANIFEST]
        if len(found) != 1 or found[0].file_size > JSON_LIMIT:
            return False
        try:
            about = parse_json(packed.read(found[0]), str(path)).get("about")
        except (DamagedFile, zipfile.BadZipFile):
            return False
    return isinstance(about, dict) and about.get(_EXPORTED) is True


def _without_texts(run: FinishedRun[Any]) -> tuple[FinishedRun[Any], int]:
    count = 0
    tables = {}
    for name, row_class in _row_classes(run).items():
        types = get_type_hints(row_class, include_extras=True)
        texts = [f.name for f in fields(row_class) if types[f.name] == Text]
        ids = [f.name for f in fields(row_class) if types[f.name] == TokenId]
        rows = []
        for row in getattr(run.tables, name):
            held = [n for n in texts if getattr(row, n)]
            count += len(held)
            rows.append(
                replace(row, **dict.fromkeys(held, LEFT_OUT), **dict.fromkeys(ids, -1))
            )
        tables[name] = rows
    return replace(run, tables=replace(run.tables, **tables)), count


def _without_paths(run: FinishedRun[Any]) -> tuple[FinishedRun[Any], int]:
    parts = ("name", "title", "sentences", "warnings", "config", "about")
    said = {name: getattr(run, name) for name in parts}
    classes = _row_classes(run)
    # A user may have given a path as the name of a loss or a reward.
    rows = {n: [asdict(row) for row in getattr(run.tables, n)] for n in classes}
    (said, rows), count = without_paths((said, rows))
    tables = {n: [classes[n](**row) for row in listed] for n, listed in rows.items()}
    return replace(run, **said, tables=replace(run.tables, **tables)), count


def _write(run: FinishedRun[Any], folder: Path) -> None:
    write_json(folder / CONFIG, run.config)
    if isinstance(run.tables, TrainingTables):
        write_metrics(folder / "metrics.parquet", run.tables.metrics)
        if run.tables.evaluation is not None:
            write_metrics(folder / "evaluation.parquet", run.tables.evaluation)
        return
    write_json(folder / "about.json", run.about)
    write_json(
        folder / "summary.json",
        {"title": run.title, "sentences": run.sentences, "warnings": run.warnings},
    )
    (folder / "results").mkdir()
    for name, row in _row_classes(run).items():
        rows = getattr(run.tables, name)
        write_rows(folder / "results" / f"{name}.parquet", row, rows)


def _pack(folder: Path, out: Path) -> None:
    """Write a folder as a zip file with fixed dates, so that its bytes say nothing."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = path.relative_to(folder.parent).as_posix()
            entry = zipfile.ZipInfo(name, _EARLIEST)
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
