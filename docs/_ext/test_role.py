"""The role {test}`tests/room/test_file.py::test_name`, which checks that it is there.

A page pairs each equation with the test that proves it; a test that is renamed or
deleted leaves a warning, and `make docs` makes warnings errors.
"""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole
from sphinx.util.logging import getLogger

logger = getLogger(__name__)


def problem_with(reference: str, root: Path) -> str | None:
    """Say why `file::function` names no test under `root`, or None if it names one."""
    file, separator, name = reference.partition("::")
    if not separator:
        return f"expected tests/…/test_file.py::test_name, got {reference!r}"
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve() / "tests") or not path.is_file():
        return f"no file {file!r} under tests/"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions or not name.startswith("test_"):
        return f"no test {name!r} in {file}"
    return None


class NamedTest(SphinxRole):
    """Shows the test's address as a literal."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Warn unless the test exists; render it either way."""
        root = Path(self.env.srcdir).parent
        if problem := problem_with(self.text, root):
            logger.warning("test role: %s", problem, location=self.get_location())
        return [nodes.literal(self.rawtext, self.text, classes=["test"])], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role."""
    app.add_role("test", NamedTest())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
