from types import SimpleNamespace

import pytest
from markdown_docstrings import process, to_restructured_text


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        (r"mean $\bar r_{-g}$ of", r"mean \ :math:`\bar r_{-g}`\  of"),
        ("$a +\n    b$", r"\ :math:`a + b`\ "),
        ("pass `eta` here", "pass ``eta`` here"),
        ("`a\n    b`", "``a b``"),
        ("``kept`` and :func:`kept`", "``kept`` and :func:`kept`"),
        ("`costs $5 or $6`", "``costs $5 or $6``"),
        ("no markup: 3 < 4", "no markup: 3 < 4"),
    ],
)
def test_inline_markup_is_translated(markdown, expected):
    assert to_restructured_text(markdown) == expected


def test_display_math_becomes_a_directive_at_its_own_indent():
    markdown = "Text\n\n  $$\n  x =\n  y\n  $$\n\nmore"
    assert to_restructured_text(markdown) == (
        "Text\n\n\n  .. math::\n\n     x =\n     y\n\n\nmore"
    )


def test_first_line_of_an_attribute_is_not_its_type():
    lines = ["Length limit: a response ends here."]
    process(SimpleNamespace(), "attribute", "length", None, None, lines)
    assert lines == ["..", "", "Length limit: a response ends here."]
