"""Measurements of influence on a report page."""

from entrometer.report.influence.checks import removals, scores
from entrometer.report.influence.groups import balance, diagonals, groups
from entrometer.report.influence.token_map import token_map
from entrometer.report.influence.tokens import (
    draining_responses,
    draining_tokens,
    scatter,
)
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.influence import InfluenceTables

PARTS = PageParts[InfluenceTables](
    figures={
        "entropy against reward by token": scatter,
        "parts of the update": balance,
        "influence by group": groups,
        "cheap scores": scores,
        "tokens removed from the loss": removals,
        "diagonal kernel": diagonals,
    },
    headline=(draining_tokens, draining_responses),
    tokens=token_map,
)
