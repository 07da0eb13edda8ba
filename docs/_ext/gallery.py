"""Writes the report pages of the gallery from committed tables.

The tables are in the repository and the pages are not: every build of the site shows
what `entrometer report` makes of them now. A page takes up to a minute, so it is kept
next to the doctrees until its tables or the package change.
"""

import hashlib
import io
import shutil
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from entrometer.cli import main

ROOT = Path(__file__).parents[2]

PAGES = {
    "measure": "studies/entropy-change/float64",
    "influence": "studies/influence",
    "kernel": "studies/kernel",
    "compare": "studies/interventions/recorded",
    "trajectory": "docs/gallery/trajectory",
    "eval": "docs/gallery/eval",
    "fork": "docs/gallery/fork",
    "training": "studies/reference",
}
"""Name of each page and the folder of its tables."""


def write_pages(app: Sphinx, exception: Exception | None) -> None:
    """Write every page to `gallery/` of the site, unless the build failed."""
    if exception or app.builder.format != "html":
        return
    kept = Path(app.doctreedir) / "gallery"
    out = Path(app.outdir) / "gallery"
    kept.mkdir(parents=True, exist_ok=True)
    out.mkdir(exist_ok=True)
    package = _digest((ROOT / "src").rglob("*.py"))
    for name, folder in PAGES.items():
        tables = _digest((ROOT / folder).glob("*.parquet"))
        page = kept / f"{name}-{package}-{tables}.html"
        if not page.is_file():
            for old in kept.glob(f"{name}-*.html"):
                old.unlink()
            said = io.StringIO()
            with redirect_stdout(said), redirect_stderr(said):
                failed = main(["report", str(ROOT / folder), "--out", str(page)])
            if failed:
                raise ExtensionError(f"gallery: {folder}: {said.getvalue()}")
        shutil.copyfile(page, out / f"{name}.html")


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:16]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer with Sphinx."""
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
