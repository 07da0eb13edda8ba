"""A figure as SVG inside a page, in the page's own colours."""

import re
import xml.etree.ElementTree as ET
from io import BytesIO

from markupsafe import Markup
from matplotlib.figure import Figure

from entrometer.report.style import (
    BLACK,
    BLUE,
    GREY,
    GRID,
    OCHRE,
    PAPER,
    PURPLE,
    RED,
    TEAL,
)

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_COLOURS = {
    BLACK: "currentColor",
    GRID: "var(--grid)",
    BLUE: "var(--blue)",
    RED: "var(--red)",
    OCHRE: "var(--ochre)",
    GREY: "var(--grey)",
    TEAL: "var(--teal)",
    PURPLE: "var(--purple)",
    PAPER: "var(--paper)",
}
_COLOUR = re.compile("|".join(_COLOURS))


def inline_svg(figure: Figure, key: str, title: str, description: str) -> Markup:
    """Draw a figure for a page that turns dark when its reader's screen does.

    Colours become those of the page's style sheet, ids begin with `key`, and `title`
    and `description` are what a screen reader says.
    """
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    root = ET.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # Its one rule would bind the whole page, whose style sheet has it too.
            if child.tag in (f"{_SVG}style", f"{_SVG}metadata"):
                parent.remove(child)
    for element in root.iter():
        _adapt(element, key)
    for element in root.iter():
        _share(element)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{key}-title {key}-desc"}
    for name, words in (("desc", description), ("title", title)):
        element = ET.Element(f"{_SVG}{name}", {"id": f"{key}-{name}"})
        element.text = words
        root.insert(0, element)
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    # Text is escaped by the serialiser.
    return Markup(ET.tostring(root, encoding="unicode"))


def _adapt(element: ET.Element, key: str) -> None:
    attributes = element.attrib
    if "id" in attributes:
        attributes["id"] = f"{key}-{attributes['id']}"
    if _HREF in attributes:
        attributes["href"] = f"#{key}-{attributes.pop(_HREF).removeprefix('#')}"
    for name, value in attributes.items():
        if "url(#" in value:
            attributes[name] = value.replace("url(#", f"url(#{key}-")
    if "style" in attributes:
        attributes["style"] = _COLOUR.sub(
            lambda match: _COLOURS[match[0]], attributes["style"]
        )
    elif element.tag == f"{_SVG}text":
        attributes["fill"] = "currentColor"


def _share(group: ET.Element) -> None:
    """Say once what all marks of a group look like, and place them to a hundredth."""
    marks = [mark for mark in group if mark.tag == f"{_SVG}use"]
    for mark in marks:
        mark.attrib |= {
            c: f"{float(mark.attrib[c]):.2f}" for c in "xy" if c in mark.attrib
        }
    styles = {mark.get("style", "") for mark in marks}
    if len(marks) > 1 and len(styles) == 1 and "style" not in group.attrib:
        group.set("style", styles.pop())
        for mark in marks:
            mark.attrib.pop("style", None)
