r"""Lets autodoc read docstrings that write $math$ and `code` as Markdown does.

autodoc takes docstrings for reStructuredText, where a dollar is a dollar and a single
backtick asks for a reference. Two signs are translated, nothing else: the rest of
what the docstrings use is spelled the same in both.
"""

import re

from sphinx.application import Sphinx

# A role like :func:`x` and the double backtick of reStructuredText are left alone.
MARKUP = re.compile(
    r"""
    (?P<keep> ``.+?`` | :[\w:+-]+:`[^`]+` )
    | ^(?P<indent>[ ]*) \$\$ (?P<display>.+?) \$\$ [ ]* $
    | \$ (?P<inline>[^$]+?) \$
    | ` (?P<code>[^`]+) `
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def translated(match: re.Match[str]) -> str:
    """Return one piece of markup as reStructuredText."""
    if keep := match["keep"]:
        return keep
    if display := match["display"]:
        pad = match["indent"] + "   "
        body = "\n".join(pad + line.strip() for line in display.strip().splitlines())
        return f"\n{match['indent']}.. math::\n\n{body}\n"
    if inline := match["inline"]:
        # The spaces keep the role apart from a letter or hyphen beside it.
        return rf"\ :math:`{' '.join(inline.split())}`\ "
    return f"``{' '.join(match['code'].split())}``"


def to_restructured_text(docstring: str) -> str:
    """Translate the dollars and single backticks of a docstring."""
    return MARKUP.sub(translated, docstring)


def process(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Translate one docstring in place, as autodoc's event asks."""
    lines[:] = to_restructured_text("\n".join(lines)).split("\n")
    if what in {"attribute", "data", "property"}:
        # napoleon takes the words before a colon on the first line for a type: an
        # empty comment gives it a first line without one.
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Translate before napoleon, which listens at 500 and writes roles of its own."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
