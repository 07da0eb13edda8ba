"""Finished runs as pictures and as one page of HTML; needs tables, and no torch."""

from entrometer.report.page import (
    draw_figures,
    report_page,
    write_figures,
    write_report,
)
from entrometer.report.training import draw_training

__all__ = [
    "draw_figures",
    "draw_training",
    "report_page",
    "write_figures",
    "write_report",
]
