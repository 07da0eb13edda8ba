import re
import xml.etree.ElementTree as ET

import pytest
from matplotlib.figure import Figure

from entrometer.report.style import BLUE, style
from entrometer.report.svg import inline_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def svg():
    with style():
        figure = Figure(figsize=(3, 2))
        ax = figure.subplots()
        ax.bar([1], [2], color=BLUE, hatch="//", label=f"<b> {BLUE} $x$ & \u2028")
        ax.plot([1, 2], [1, 2], "o", color=BLUE)
        ax.legend()
        return inline_svg(figure, "key", "A title", "What & how")


def test_it_is_an_image_with_a_name_and_a_description(svg):
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby").split()
    named = {e.get("id"): e.text for e in root if e.get("id") in ids}
    assert named == {"key-title": "A title", "key-desc": "What & how"}


def test_ids_are_the_figures_own_and_are_found(svg):
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids
    assert all(name.startswith("key-") for name in ids)
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
    assert used
    assert {a or b for a, b in used} <= set(ids)


def test_colours_are_the_pages(svg):
    styles = " ".join(re.findall(r'style="([^"]*)"', svg))
    assert "var(--blue)" in styles
    assert "currentColor" in styles
    assert not re.search(r"#[0-9a-f]{6}", styles)


def test_a_label_keeps_its_text(svg):
    texts = [e.text for e in ET.fromstring(svg).iter() if e.tag.endswith("}text")]
    assert f"<b> {BLUE} $x$ & \u2028" in texts


def test_nothing_in_it_reaches_the_page_around_it(svg):
    for word in ("<style", "<metadata", "<script", "<!--", "xlink", "<?xml"):
        assert word not in svg


def test_marks_of_one_look_say_it_once_and_in_the_pages_colours(svg):
    root = ET.fromstring(svg)
    (group,) = (g for g in root.iter() if len(g.findall(f"{SVG}use")) == 2)
    assert "var(--blue)" in group.get("style")
    assert all(use.get("style") is None for use in group.findall(f"{SVG}use"))
