"""Finished runs as pictures; needs tables, and no torch."""

from entrometer.report.training import draw_training

__all__ = ["draw_training"]
