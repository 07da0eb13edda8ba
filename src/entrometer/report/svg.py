"""A figure as inline SVG, in the colours of the page's style sheet."""

import re
import xml.etree.ElementTree as ET
from io import BytesIO

from markupsafe import Markup
from matplotlib.figure import Figure

from entrometer.report import style

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_NAMES = ("grid", "blue", "red", "ochre", "grey", "teal", "purple", "paper")
_COLOURS = {style.BLACK: "currentColor"} | {
    getattr(style, name.upper()): f"var(--{name})" for name in _NAMES
}
_COLOUR = re.compile("|".join(_COLOURS))


def inline_svg(figure: Figure, key: str, title: str, description: str) -> Markup:
    """Return a figure as SVG for a page that may be light or dark.

    Colours become those of the page's style sheet, ids begin with `key`, and `title`
    and `description` are what a screen reader says.
    """
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    root = ET.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # A <style> inside an inline SVG would apply to the whole page.
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
    # The serialiser escapes text, so that the markup is safe.
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
    """Move the style that all marks of a group share to the group: fewer bytes."""
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
