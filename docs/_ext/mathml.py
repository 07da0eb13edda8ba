"""Formulas as MathML, which browsers draw themselves: no script, and no network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

logger = getLogger(__name__)


def mathml(formula: str, *, block: bool) -> str:
    """Return LaTeX as MathML; raise ValueError for what the converter does not know."""
    text = convert(formula.strip(), display="block" if block else "inline")
    # An unknown command would be shown to the reader with its backslash.
    if unknown := re.search(r"\\[A-Za-z]+", text):
        raise ValueError(f"no MathML for {unknown[0]}")
    return text


def _visit(writer: HTML5Translator, node: nodes.Element) -> None:
    block = isinstance(node, nodes.math_block)
    try:
        text = mathml(node.astext(), block=block)
    except Exception as error:
        logger.warning("formula: %s", error, location=node)
        text = writer.encode(node.astext())
    element = "div" if block else "span"
    # A long formula scrolls by itself, so it must be reached by the keyboard too.
    reached = ' tabindex="0" role="group" aria-label="formula"' if block else ""
    writer.body.append(f'<{element} class="math"{reached}>{text}</{element}>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; conf.py chooses it."""
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
