"""Comparisons of interventions on a report page."""

from entrometer.report.compare.agreement import agreements
from entrometer.report.compare.distance_to_frontier import distance_to_frontier
from entrometer.report.compare.frontier import frontier
from entrometer.report.compare.gains import gains
from entrometer.report.compare.predicted import predicted
from entrometer.report.compare.remedies import remedies, strengths
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.compare import CompareTables

PARTS = PageParts[CompareTables](
    figures={
        "frontier of reward and entropy": frontier,
        "gain against plain": gains,
        "steps that were taken": predicted,
        "remedies below the frontier": distance_to_frontier,
    },
    tables=(agreements, remedies),
    folded={"Interventions at other strengths": strengths},
)
