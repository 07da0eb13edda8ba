"""Finished runs as figures and as one self-contained HTML page; needs no torch.

Names are imported on first use, so that `entrometer.report.kinds` needs no matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrometer.report.kinds import FinishedRun, PageParts, RunKind
    from entrometer.report.page import (
        draw_figures,
        report_page,
        write_figures,
        write_report,
    )
    from entrometer.report.training.figures import draw_training

_HOMES = {
    "FinishedRun": "kinds",
    "PageParts": "kinds",
    "RunKind": "kinds",
    "draw_figures": "page",
    "draw_training": "training.figures",
    "report_page": "page",
    "write_figures": "page",
    "write_report": "page",
}

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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
