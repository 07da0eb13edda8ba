"""Names and settings of the remedies, read from their files without importing torch."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from entrometer.errors import unknown_intervention, unknown_setting

_FILES = Path(__file__).parents[1] / "interventions"
_OF_ALL = "micro_batch"  # A setting that every intervention has.


def require_names(texts: tuple[str, ...]) -> None:
    """Raise `MissingKey` for an intervention or a setting that this package lacks.

    Values are not checked, and nothing is if torch has been imported: then user code
    may have registered more, and the registry answers as fast.
    """
    if not texts or "torch" in sys.modules:
        return
    known = dict(_written())
    for text in texts:
        name, _, rest = text.partition(":")
        if name not in known:
            raise unknown_intervention(name, known)
        for key in (pair.partition("=")[0] for pair in rest.split(",") if pair):
            if key not in known[name]:
                raise unknown_setting(key, name, known[name])


def _written() -> Iterator[tuple[str, list[str]]]:
    for path in _FILES.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            target.id: str(node.value.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "register":
                    named = ast.unparse(call.args[0])
                    name = constants.get(named) or ast.literal_eval(named)
                    yield name, [*(a.arg for a in node.args.kwonlyargs), _OF_ALL]
