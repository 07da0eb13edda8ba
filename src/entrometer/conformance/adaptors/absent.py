"""Import one file of a framework without the packages that its loss has no use for."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class NotInstalled(type):
    """The class of every name that is imported from an absent package.

    Such a name can be a base class, an annotation or a decorator. Everything else that
    a loss could do with it raises, so a loss that needs the package cannot be wrong.
    """

    def __getattr__(cls, name: str) -> Any:
        """Return a name inside an absent name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, item: object) -> Any:
        """Return the name itself, for annotations."""
        return cls

    def __or__(cls, other: object) -> Any:
        """Return the name itself, for annotations."""
        return cls

    __ror__ = __or__

    def __call__(cls, *arguments: Any, **settings: Any) -> Any:
        """Return what is decorated; with settings alone, a decorator."""
        if "_absent" not in vars(cls):
            return super().__call__(*arguments, **settings)
        if not arguments:
            return _same
        if len(arguments) == 1 and callable(arguments[0]):
            return arguments[0]
        raise RuntimeError(f"the loss calls {cls.__qualname__}, which is not installed")


def _same(definition: Any) -> Any:
    return definition


def _absent(name: str) -> Any:
    return NotInstalled(name, (), {"_absent": True})


class _AbsentModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{self.__name__}.{name}")


class _Finder:
    """Finds every module of some packages, as modules with absent names."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if any(name == p or name.startswith(f"{p}.") for p in self.packages):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _AbsentModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def imported(name: str) -> Any:
    """Return a module of a framework, of which nothing is known to the type checker."""
    return import_module(name)


def without(*packages: str) -> None:
    """Let imports from these packages succeed, installed or not."""
    sys.meta_path.insert(0, _Finder(packages))


def without_init(roots: Sequence[Path], *packages: str) -> None:
    """Let files of these packages be imported without the package's `__init__`.

    An `__init__` may import servers and GPU kernels that its loss file does not need.
    """
    for name in packages:
        module = ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split("."))) for root in roots]
        sys.modules[name] = module
