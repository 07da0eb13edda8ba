"""Answers to requests: the list of runs, the page of some, and which is the newest."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from entrometer.view.files import LeavesDirectory
from entrometer.view.guard import HEADERS, Guard
from entrometer.view.html import list_page, undrawn_page
from entrometer.view.index import Entry, Index
from entrometer.view.pages import Pages


def make_app(
    index: Index, pages: Pages, *, token: str, hosts: Sequence[str]
) -> ASGIApp:
    """Return the application that serves the runs of an index.

    Args:
        index: The runs; a request names them by their ids.
        pages: Their report pages.
        token: What the path of every request begins with.
        hosts: Host names with port under which the server may be asked.
    """
    site = _Site(index, pages)
    app = Starlette(
        routes=[
            Route("/", site.list),
            Route("/runs", site.runs),
            Route("/newest", site.newest),
        ],
        exception_handlers={
            HTTPException: _refuse,
            LeavesDirectory: _leaves,
            Exception: _fail,
        },
    )
    # Starlette does not know the token: it would redirect to an address without it.
    app.router.redirect_slashes = False
    return Guard(app, token, frozenset(hosts))


class _Site:
    """The three addresses of the server; Starlette calls each in a thread."""

    def __init__(self, index: Index, pages: Pages) -> None:
        self._index, self._pages = index, pages

    def list(self, request: Request) -> Response:
        """Return the list of runs, filtered by `words` and `kind`."""
        words = request.query_params.get("words", "")
        kind = request.query_params.get("kind", "")
        found = self._index.runs()
        html = list_page(
            [entry for entry in found if entry.matches(words, kind)],
            total=len(found),
            kinds=sorted({entry.kind for entry in found}),
            directory=self._index.root.name,
            words=words,
            kind=kind,
        )
        return HTMLResponse(html, headers=HEADERS)

    def runs(self, request: Request) -> Response:
        """Return the page of the runs whose ids are given as `run`."""
        entries = self._entries(request)
        page = self._pages.page(entries)
        html = page.html if page else undrawn_page(entries, "")
        return HTMLResponse(html, headers=HEADERS)

    def newest(self, request: Request) -> Response:
        """Return the stamp of the newest page of these runs; empty without one."""
        page = self._pages.page(self._entries(request))
        return PlainTextResponse(page.stamp if page else "", headers=HEADERS)

    def _entries(self, request: Request) -> Sequence[Entry]:
        """Return the runs of a request, each once."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        found = [self._index.run(name) for name in names]
        if None in found:
            # After a start of the server nothing was listed yet.
            self._index.runs()
            found = [self._index.run(name) for name in names]
        entries = [entry for entry in found if entry is not None]
        if not entries or len(entries) < len(names):
            raise HTTPException(
                404,
                f"expected runs of the list, got {len(names) - len(entries)} others "
                f"among {len(names)}; choose runs in the list",
            )
        return entries


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = error.detail
    if error.status_code == 404 and words == "Not Found":
        words = "expected the list or a run, got another address; open the list"
    return PlainTextResponse(f"{words}\n", error.status_code, HEADERS)


def _leaves(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 403, HEADERS)


def _fail(request: Request, error: Exception) -> Response:
    words = f"expected runs that can be listed, got {type(error).__name__}; "
    words += "run `entrometer report` on the directory for the whole error"
    return PlainTextResponse(f"{words}\n", 500, HEADERS)
