"""Report pages of runs: drawn one at a time in the background, and kept."""

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple

from entrometer.errors import EntrometerError
from entrometer.report.read import Kinds
from entrometer.runs.atomic import atomic_write
from entrometer.version import __version__
from entrometer.view.files import stamp
from entrometer.view.html import drawn_page, undrawn_page
from entrometer.view.index import Entry

_MOST = 32
"""Pages in memory; a page has up to 5 MB."""
_MOST_FILES = 400
_WAIT_SECONDS = 0.4
"""Seconds that a request waits for a page before it gets one without figures."""

Names = tuple[str, ...]
"""Ids of the runs of a page, in the order of the page."""


class Page(NamedTuple):
    """A page as drawn, and the stamp of what it was drawn from."""

    stamp: str
    html: str


@dataclass(frozen=True)
class _Drawing:
    stamp: str
    done: Event


class Pages:
    """Pages by the runs that they show.

    Drawing takes seconds, so a request gets the page that is there, which may be an
    older one or none, and a thread draws the new one. The `report.html` of a run is
    not served: whoever sent the run may have put anything in it.
    """

    def __init__(self, root: Path, kinds: Kinds, cache: Path) -> None:
        """`cache` is the directory of drawn pages, which outlive the server."""
        self._root, self._kinds, self._cache = root, kinds, cache
        self._code = _code(Path(__file__).parents[1])
        self._drawn: OrderedDict[Names, Page] = OrderedDict()
        self._drawing: dict[Names, _Drawing] = {}
        self._lock = Lock()
        # matplotlib's settings are those of the process: one page at a time.
        self._drawing_lock = Lock()

    def page(self, entries: Sequence[Entry]) -> Page | None:
        """Return the newest page of runs that there is; None while the first is drawn.

        A page of runs that have changed since is drawn again.
        """
        names = tuple(entry.id for entry in entries)
        now = self._stamp(entries)
        with self._lock:
            drawn = self._drawn.get(names) or self._kept(now)
            if drawn is not None:
                self._keep(names, drawn)
                if drawn.stamp == now:
                    return drawn
            drawing = self._drawing.get(names)
            if drawing is None:
                drawing = self._drawing[names] = _Drawing(now, Event())
                work = (names, drawing, tuple(entries))
                Thread(target=self._draw, args=work, daemon=True).start()
        if drawn is None:
            drawing.done.wait(_WAIT_SECONDS)
        with self._lock:
            return self._drawn.get(names)

    def _stamp(self, entries: Sequence[Entry]) -> str:
        texts = [f"{e.id}\0{e.state}\0{stamp(e.path, self._root)}" for e in entries]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def _draw(self, names: Names, drawing: _Drawing, entries: Sequence[Entry]) -> None:
        lasts = True
        with self._drawing_lock:
            try:
                html = drawn_page(entries, self._kinds, drawing.stamp)
                with suppress(OSError):
                    self._write(drawing.stamp, html)
            except EntrometerError as error:
                html = undrawn_page(entries, drawing.stamp, str(error))
            except (OSError, MemoryError) as error:
                # Of this machine at this moment: the next request tries again.
                html, lasts = undrawn_page(entries, drawing.stamp, str(error)), False
            except Exception as error:
                # A file that someone sent can fail in any library that reads it.
                html = undrawn_page(entries, drawing.stamp, _unexpected(error))
        with self._lock:
            # A page that no stamp equals is drawn anew.
            self._keep(names, Page(drawing.stamp if lasts else "", html))
            del self._drawing[names]
        drawing.done.set()

    def _keep(self, names: Names, page: Page) -> None:
        self._drawn[names] = page
        self._drawn.move_to_end(names)
        while len(self._drawn) > _MOST:
            self._drawn.popitem(last=False)

    def _file(self, stamp_: str) -> Path:
        key = hashlib.sha256(f"{self._code}\0{stamp_}".encode()).hexdigest()
        return self._cache / f"{key}.html"

    def _kept(self, stamp_: str) -> Page | None:
        """Return a page that an earlier server drew of the same files."""
        if not _is_private(self._cache):
            return None
        try:
            return Page(stamp_, self._file(stamp_).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _write(self, stamp_: str, html: str) -> None:
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(self._cache):
            return
        with atomic_write(self._file(stamp_)) as file:
            file.write(html.encode())
        kept = sorted(self._cache.glob("*.html"), key=os.path.getmtime, reverse=True)
        for path in kept[_MOST_FILES:]:
            path.unlink(missing_ok=True)


def _is_private(folder: Path) -> bool:
    """Return whether only this user can have written the pages in a folder.

    `$ENTROMETER_CACHE` may be shared, and a page is sent as it is in its file.
    """
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    if not hasattr(os, "geteuid"):
        # Windows, where the mode says nothing of other users.
        return True
    own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
    return own and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _code(package: Path) -> str:
    """Return a text that differs for other code: it may draw another page.

    From the names, times and sizes of the files: to read them all takes longer.
    """
    digest = hashlib.sha256(__version__.encode())
    for folder, below, names in os.walk(package):
        below[:] = sorted(set(below) - {"__pycache__"})
        for name in sorted(names):
            about = os.lstat(os.path.join(folder, name))
            words = f"{folder}\0{name}\0{about.st_mtime_ns}\0{about.st_size}\0"
            digest.update(os.fsencode(words))
    return digest.hexdigest()


def _unexpected(error: Exception) -> str:
    return (
        f"expected the files of a finished run, got {type(error).__name__} while "
        "drawing them; run `entrometer report` on the directory for the whole error"
    )
