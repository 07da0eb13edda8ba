"""Formulas as MathML, which browsers draw themselves: no script, and no network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

logger = getLogger(__name__)


# `log x` is two words; `log(x)` needs no space behind it.
_FUNCTION = re.compile(r"(<mi>(?:log|ln|exp)</mi>)(?!<mo)")
_AFTER_NAME = re.compile(r"(</m(?:i|n|row|su[bp]|subsup)>)(<mi>(?:log|ln|exp)</mi>)")
_SPACE = '<mspace width="0.17em"/>'


def mathml(formula: str, *, block: bool) -> str:
    """Return LaTeX as MathML; raise ValueError for what the converter does not know."""
    # A control space may stand at the end of a line, which the converter does not know.
    source = formula.strip().replace("\\\n", "\\ ")
    text = convert(source, display="block" if block else "inline")
    if unknown := re.search(r"\\.?\w*", text, re.DOTALL):
        # It would be shown to the reader with its backslash.
        raise ValueError(f"no MathML for {unknown[0]}")
    # Browsers enlarge only a delimiter that may be stretched.
    text = text.replace("<mo minsize=", '<mo stretchy="true" minsize=')
    text = _AFTER_NAME.sub(rf"\1{_SPACE}\2", text)
    return _FUNCTION.sub(rf"\1{_SPACE}", text)


def _visit(writer: HTML5Translator, node: nodes.Element) -> None:
    block = isinstance(node, nodes.math_block)
    try:
        text = mathml(node.astext(), block=block)
    except Exception as error:  # whatever the converter raises for a formula
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
