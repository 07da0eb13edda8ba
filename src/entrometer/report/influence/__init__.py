"""Measurements of influence on a report page."""

from entrometer.report.influence.balance import balance
from entrometer.report.influence.diagonals import diagonals
from entrometer.report.influence.draining import draining_responses, draining_tokens
from entrometer.report.influence.groups import groups
from entrometer.report.influence.heat.page import token_map
from entrometer.report.influence.removals import removals
from entrometer.report.influence.scatter import scatter
from entrometer.report.influence.scores import scores
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.influence import InfluenceTables

PARTS = PageParts[InfluenceTables](
    figures={
        "entropy against reward by token": scatter,
        "parts of the update": balance,
        "influence by group": groups,
        "cheap scores": scores,
        "tokens taken out": removals,
        "diagonal kernel": diagonals,
    },
    headline=(draining_tokens, draining_responses),
    tokens=token_map,
)
