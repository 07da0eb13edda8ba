"""A user's own code: a key of what it does, and the modules it is made of."""

import copyreg
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from entrometer.runs.content import content_key

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_CONTAINERS = (tuple, list, dict, set, frozenset)


def code_key(*definitions: Callable[..., Any] | None) -> str:
    """Return a key of functions or classes of a user; "" for those of this package.

    It covers the compiled code that runs, not its text on disk, which may have been
    edited since. Functions, classes and constants of the user that the code refers to
    are covered as well. Libraries are not.
    """
    users = [d for d in definitions if d is not None and is_users(d)]
    if not users:
        return ""
    walk = _Walk([sys.modules.get(d.__module__) for d in users])
    for definition in users:
        walk.visit(definition.__qualname__, definition, frozenset())
    return content_key({"code": walk.parts})


def is_users(definition: Callable[..., Any]) -> bool:
    """Whether a function or class is defined outside this package."""
    # Code that was executed from a string has no module.
    return str(definition.__module__).partition(".")[0] != __name__.partition(".")[0]


def own_modules(definition: Callable[..., Any]) -> list[ModuleType]:
    """Return the loaded modules that lie beside the one that defines something.

    These are its package, or the files in its directory; no installed library.
    """
    walk = _Walk([sys.modules.get(definition.__module__)])
    loaded = dict(sys.modules)
    return [m for n, m in loaded.items() if n != "__main__" and walk.is_own(n)]


class _Walk:
    """Collects code from a definition on, through what it refers to."""

    def __init__(self, homes: list[ModuleType | None]) -> None:
        self.parts: list[Any] = []
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        names = [home.__name__.partition(".")[0] for home in homes if home]
        self._packages = {"__main__", *names}
        self._directories = {d for n in names if (d := _directory(n)) is not None}

    def is_own(self, module: str) -> bool:
        """Whether a module belongs to the user, as far as one can tell."""
        package = module.partition(".")[0]
        if package == __name__.partition(".")[0]:
            return False
        return package in self._packages or _directory(package) in self._directories

    def visit(self, name: str, value: Any, names: frozenset[str]) -> None:
        """Add what a name refers to, in code that uses these names."""
        if isinstance(value, _PLAIN):
            self.parts.append([name, repr(value)])
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, ModuleType):
            if self.is_own(value.__name__):
                for used in sorted(names & vars(value).keys()):
                    self.visit(used, vars(value)[used], names)
        elif isinstance(value, _CONTAINERS):
            self._add_container(name, value, names)
        elif isinstance(value, FunctionType):
            if self.is_own(value.__module__ or ""):
                self._add_function(name, value)
        elif isinstance(value, type):
            if self.is_own(value.__module__):
                self._add_class(name, value)
        else:
            self._add_object(name, value, names)

    def _add_container(self, name: str, value: Any, names: frozenset[str]) -> None:
        # The order of a set of strings is another in each process.
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        self.parts.append([name, type(value).__name__, len(items)])
        for item in items:
            self.visit(name, item, names)
            if isinstance(value, dict):
                self.visit(name, value[item], names)

    def _add_function(self, name: str, function: FunctionType) -> None:
        self.parts.append([name, _compiled(function.__code__)])
        names = frozenset(_names(function.__code__))
        self.visit("defaults", function.__defaults__, names)
        self.visit("defaults", function.__kwdefaults__, names)
        for cell in function.__closure__ or ():
            self.visit("closure", cell.cell_contents, names)
        for used in sorted(names & function.__globals__.keys()):
            self.visit(used, function.__globals__[used], names)

    def _add_class(self, name: str, kind: type) -> None:
        self.parts.append([name, kind.__qualname__])
        for base in kind.__bases__:
            self.visit("base", base, frozenset())
        for attribute, value in sorted(vars(kind).items()):
            for name_of in ("__func__", "fget", "func"):
                # The function of a static or class method, or of a property.
                value = getattr(value, name_of, value)
            special = attribute.startswith("__") and attribute.endswith("__")
            if isinstance(value, FunctionType | type) or not special:
                self.visit(attribute, value, frozenset())

    def _add_object(self, name: str, value: Any, names: frozenset[str]) -> None:
        self.visit("type", type(value), names)
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            # What it would be made again from: arrays and patterns give their content.
            content = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # It calls whatever the object defines.
            return
        # Kept, so that no later object gets the identity of one that was seen.
        self._kept.append(content)
        self.visit(name, content, names)


def _directory(package: str) -> Path | None:
    """Directory that a top-level module was found in; None for a library's."""
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    file = next((Path(place) for place in places if place), None)
    if file is None or {"site-packages", "dist-packages"} & set(file.parts):
        return None
    if file.is_relative_to(Path(copyreg.__file__).parent):
        return None
    return (file.parent if file.name == "__init__.py" else file).resolve().parent


def _compiled(code: CodeType) -> list[Any]:
    constants = [
        _compiled(c)
        if isinstance(c, CodeType)
        else repr(sorted(c, key=repr) if isinstance(c, frozenset) else c)
        for c in code.co_consts
    ]
    return [code.co_code.hex(), constants, list(code.co_names), list(code.co_freevars)]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
