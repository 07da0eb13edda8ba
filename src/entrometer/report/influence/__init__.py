"""Measurements of influence on a report page."""

from entrometer.report.influence import checks, figures, tokens
from entrometer.report.influence.token_map import token_map
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.influence import InfluenceTables

PARTS = PageParts[InfluenceTables](
    figures={
        "entropy against reward by token": tokens.scatter,
        "parts of the update": figures.balance,
        "influence by group": figures.groups,
        "cheap scores": checks.scores,
        "tokens removed from the loss": checks.removals,
        "diagonal kernel": figures.diagonals,
    },
    headline=(tokens.draining_tokens, tokens.draining_responses),
    tokens=token_map,
)
