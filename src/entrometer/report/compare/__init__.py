"""Comparisons of interventions on a report page."""

from entrometer.report.compare.agreement import agreements, predicted
from entrometer.report.compare.frontier import frontier, remedies, strengths
from entrometer.report.compare.gains import distance_to_frontier, gains
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.compare import CompareTables

PARTS = PageParts[CompareTables](
    figures={
        "frontier of reward and entropy": frontier,
        "gain over plain": gains,
        "steps that were taken": predicted,
        "distance to the frontier": distance_to_frontier,
    },
    tables=(agreements, remedies),
    folded={"Interventions at other strengths": strengths},
)
