"""Content keys of values, files and user code, by which cached results are found."""

import copyreg
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from entrometer.runs.untrusted import open_regular

_SETTLED_NS = 2_000_000_000
"""Age after which equal times mean an unchanged file. The coarsest clock of a file
system in use (FAT) ticks every 2 seconds."""

_Version = tuple[int, int, int, int, int]

_HASHES: dict[_Version, str] = {}
"""Hashes computed by this process, by device, inode, size and times of the file."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_CONTAINERS = (tuple, list, dict, set, frozenset)


def content_key(content: Mapping[str, Any]) -> str:
    """Return the sha256 of JSON-compatible content; the order of keys is ignored."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file's bytes, read once per process and version.

    Seals and content keys hash the same files, and those of a checkpoint have
    gigabytes. A file counts as unchanged while its device, inode, size, modification
    time and change time are the same. Programs cannot set the last of these.
    """
    with open_regular(path) as file:
        before = _version(file.fileno())
        if before in _HASHES:
            return _HASHES[before]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        # A file that was just written may change again within one tick of the file
        # system's clock and keep its times: do not store its hash.
        settled = time.time_ns() - max(before[-2:]) > _SETTLED_NS
        if settled and _version(file.fileno()) == before:
            _HASHES[before] = digest
    return digest


def _version(descriptor: int) -> _Version:
    status = os.fstat(descriptor)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *times)


def code_key(*definitions: Callable[..., Any] | None) -> str:
    """Return a key of functions or classes of a user; "" for those of this package.

    The key covers the compiled code that runs, not the source file, which may have been
    edited since, and the functions, classes and constants of the user that the code
    refers to. Libraries are not covered.
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
    """Return the loaded modules of the package or directory of a function or class.

    Installed libraries are not among them.
    """
    walk = _Walk([sys.modules.get(definition.__module__)])
    loaded = dict(sys.modules)
    return [m for n, m in loaded.items() if n != "__main__" and walk.is_own(n)]


class _Walk:
    """Collects the code of a definition and of everything that it refers to."""

    def __init__(self, homes: list[ModuleType | None]) -> None:
        self.parts: list[Any] = []
        self._seen: set[int] = set()
        # References that keep objects alive, so that `id()` is not reused.
        self._kept: list[Any] = []
        names = [home.__name__.partition(".")[0] for home in homes if home]
        self._packages = {"__main__", *names}
        self._directories = {d for n in names if (d := _directory(n)) is not None}

    def is_own(self, module: str) -> bool:
        """Whether a module belongs to the user, judging by where it was loaded from."""
        package = module.partition(".")[0]
        if package == __name__.partition(".")[0]:
            return False
        return package in self._packages or _directory(package) in self._directories

    def visit(self, name: str, value: Any, names: frozenset[str]) -> None:
        """Add a name's value to `parts`; of a module, only what `names` has."""
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
        # The order of a set of strings differs between processes.
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
            # What a pickle would hold: arrays and patterns give their content.
            content = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # It calls whatever the object defines.
            return
        self._kept.append(content)
        self.visit(name, content, names)


def _directory(package: str) -> Path | None:
    """Return the directory of a top-level module; None for one of a library."""
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
