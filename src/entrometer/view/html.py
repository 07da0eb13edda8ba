"""The HTML that the server sends: the list of runs, and pages of runs."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entrometer.report.influence.token_map import token_script
from entrometer.report.page import page_content
from entrometer.report.read import Kinds
from entrometer.report.style import LOOKS
from entrometer.report.templates import environment
from entrometer.version import __version__
from entrometer.view.index import Entry

_HERE = Path(__file__).parent


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


_POLL = (_HERE / "poll.js").read_text(encoding="utf-8")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; connect-src 'self'; "
    f"script-src 'sha256-{_digest(_POLL)}' 'sha256-{_digest(token_script())}'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content-Security-Policy of every answer: the scripts are those of this package.

Pages have a policy in `<meta>` too, but a header does not depend on what a page has.
"""


def list_page(
    entries: Sequence[Entry],
    *,
    total: int,
    kinds: Sequence[str],
    directory: str,
    words: str,
    kind: str,
) -> str:
    """Return the list of runs that were kept by `words` and `kind`, of `total` runs."""
    return _render(
        "list.html.j2",
        entries=entries,
        total=total,
        kinds=kinds,
        directory=directory,
        words=words,
        kind=kind,
        most=len(LOOKS),
        version=__version__,
    )


def drawn_page(entries: Sequence[Entry], kinds: Kinds, stamp: str) -> str:
    """Return the report page of finished runs, with a way back to the list.

    It asks for a newer page than that of `stamp` every few seconds.
    """
    content = page_content([entry.path for entry in entries], kinds)
    return _render("run.html.j2", entries=entries, stamp=stamp, **content)


def undrawn_page(entries: Sequence[Entry], stamp: str, problem: str = "") -> str:
    """Return what the list knows of runs: their report page is being drawn.

    With a `problem` it cannot be drawn, and the page says why.
    """
    return _render("undrawn.html.j2", entries=entries, stamp=stamp, problem=problem)


def _render(name: str, **content: Any) -> str:
    template = environment(_HERE).get_template(name)
    return template.render(poll=_POLL, poll_digest=_digest(_POLL), **content)
