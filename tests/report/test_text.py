from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from benchmarks.report.hostile import hostile_texts
from entrometer.report.text import NOT_DRAWN, carried, label, shown


class Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", []

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))


def read(markup):
    reader = Reader()
    reader.feed(f"<p>{markup}</p>")
    reader.close()
    return reader


@given(st.text(st.characters()))
def test_any_text_comes_back_from_its_markup(text):
    found = read(shown(text))
    assert found.text == carried(text)
    assert set(found.tags) <= {("p",), ("i", "data-c")}


@pytest.mark.parametrize("text", hostile_texts(), ids=lambda t: ascii(t[:20]))
def test_hostile_text_comes_back_from_its_markup(text):
    found = read(shown(text))
    assert found.text == carried(text)
    assert set(found.tags) <= {("p",), ("i", "data-c")}


def test_only_nul_and_half_a_surrogate_pair_are_replaced():
    assert carried("a\0b\ud800c\r\x1b\u202e") == "a\u2400b\ufffdc\r\x1b\u202e"


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("a\x1bb", 'a<i data-c="ESC">\x1b</i>b'),
        ("\u202ex", '<i data-c="U+202E">\u202e</i>x'),
        ("\0\0\x07", '<i data-c="NUL×2 BEL">\u2400\u2400\x07</i>'),
        ("a\r\n", 'a<i data-c="CR">&#13;</i>\n'),
    ],
)
def test_what_cannot_be_seen_is_named(text, markup):
    assert shown(text) == Markup(markup)


def test_emoji_that_are_joined_stay_so():
    family = "\U0001f469\u200d\U0001f467"
    assert shown(family) == family


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a\nb\x1b", f"a{NOT_DRAWN}b{NOT_DRAWN}"),
        ("\u4f60 \u202e", f"{NOT_DRAWN} {NOT_DRAWN}"),
        ("η $x$", "η $x$"),
        ("_hidden", " _hidden"),
        ("", NOT_DRAWN),
        ("x" * 50, "x" * 35 + "…"),
    ],
)
def test_a_label_holds_only_what_can_be_drawn(text, drawn):
    assert label(text) == drawn
