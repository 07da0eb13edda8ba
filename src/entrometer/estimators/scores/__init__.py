"""Cheap scores of tokens, and how well they rank an influence."""

from entrometer.estimators.scores.ranking import (
    Ranking,
    held_out_predictions,
    rankings,
    top_found,
)
from entrometer.estimators.scores.scores import SCORES, Sees, TokenColumns

__all__ = [
    "SCORES",
    "Ranking",
    "Sees",
    "TokenColumns",
    "held_out_predictions",
    "rankings",
    "top_found",
]
