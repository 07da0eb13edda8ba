"""Untrusted text: on a page, and in the label of a figure."""

import re
from functools import cache
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.ft2font import FT2Font

from entrometer.report.style import is_narrow

# Controls other than tab and newline, and format characters that hide, or reorder what
# is around them. The joiners U+200C and U+200D are left: emoji and scripts need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROLS = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF"),
    *("VT", "FF", "CR", "SO", "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK"),
    *("SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
_NARROW_WIDTH = 22
NOT_DRAWN = "\u25a1"
"""Drawn in place of a character that the font does not have."""


def carried(text: str) -> str:
    """Return text that HTML can hold: NUL as \u2400, a lone surrogate as \ufffd."""
    return _SURROGATE.sub("\ufffd", text.replace("\0", "\u2400"))


def shown(text: object) -> Markup:
    """Return markup whose text content is exactly `carried(str(text))`.

    Invisible characters are wrapped in an element that the style sheet shows by name
    and isolates: nothing is hidden, and nothing outside is reordered.
    """
    clean = _SURROGATE.sub("\ufffd", str(text))
    parts: list[str] = []
    end = 0
    for match in _UNSEEN.finditer(clean):
        parts.append(escape(clean[end : match.start()]))
        # An HTML parser reads a carriage return as a newline, unless it is a reference.
        raw = carried(match[0]).replace("\r", "&#13;")
        parts.append(f'<i data-c="{_names(match[0])}">{raw}</i>')
        end = match.end()
    parts.append(escape(clean[end:]))
    return Markup("".join(parts))


def label(text: str, width: int = 36) -> str:
    """Return text cut to `width`, with a box for any character that has no glyph.

    A narrow figure has room for fewer characters.
    """
    width = min(width, _NARROW_WIDTH) if is_narrow() else width
    head = text if len(text) <= width else text[: width - 1] + "\u2026"
    font = _font()
    drawn = "".join(
        c if c.isprintable() and font.get_char_index(ord(c)) else NOT_DRAWN
        for c in head
    )
    # matplotlib leaves labels that are empty or begin with _ out of a legend.
    return f" {drawn}" if drawn.startswith("_") else drawn or NOT_DRAWN


def _names(run: str) -> str:
    counts = ((char, len(list(same))) for char, same in groupby(run))
    return " ".join(_name(c) + f"\u00d7{n}" * (n > 1) for c, n in counts)


def _name(char: str) -> str:
    code = ord(char)
    return _CONTROLS[code] if code < len(_CONTROLS) else f"U+{code:04X}"


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")))
