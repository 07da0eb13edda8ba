"""Disks that are full: the file that could not be written is named."""

from collections.abc import Callable

from benchmarks.hostile.case import Case, Workshop
from benchmarks.hostile.foreign import VERL


def cases() -> list[Case]:
    return [
        Case("disks", f"training, files of at most {most}", _train(most), "new")
        for most in (1_000, 30_000, 100_000)
    ] + [
        Case("disks", f"import, files of at most {most}", _import(most), "imported")
        for most in (1_000, 1_000_000)
    ]


def _limited(arguments: list[str], most: int) -> list[str]:
    """Have every write beyond a size fail; see `trial.main`."""
    return ["--limited", str(most), *arguments]


def _train(most: int) -> Callable[[Workshop], list[str]]:
    flags = ["--steps", "1", "--imitation.steps", "0", "--max-tokens", "4"]
    flags += ["--prompts", "2", "--responses", "2", "--problems", "8"]
    flags += ["--micro-batch", "4"]
    return lambda shop: _limited(["train", "--run", "new", *flags], most)


def _import(most: int) -> Callable[[Workshop], list[str]]:
    def make(shop: Workshop) -> list[str]:
        shop.copy("verl")
        return _limited(["import", VERL, "imported"], most)

    return make
