"""Finished runs as figures and as one self-contained HTML page; needs no torch.

Functions are imported on first use, so that naming a kind of run needs no matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from entrometer.report.kinds import FinishedRun, PageParts, RunKind

if TYPE_CHECKING:
    from entrometer.report.page import (
        draw_figures,
        report_page,
        write_figures,
        write_report,
    )
    from entrometer.report.training import draw_training

__all__ = [
    "FinishedRun",
    "PageParts",
    "RunKind",
    "draw_figures",
    "draw_training",
    "report_page",
    "write_figures",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "training" if name == "draw_training" else "page"
    return getattr(import_module(f"{__name__}.{home}"), name)
