"""Comparisons of interventions on a report page."""

from entrometer.report.compare.agreement import agreements, predicted
from entrometer.report.compare.answer import answer, reference, settings_to_paste
from entrometer.report.compare.frontier import frontier, remedies, strengths
from entrometer.report.compare.gains import distance_to_frontier, gains
from entrometer.report.compare.later import later_gains
from entrometer.report.kinds import PageParts, Section
from entrometer.report.next_batches import batch_table, next_gains
from entrometer.runs.tables.compare import CompareTables

PARTS = PageParts[CompareTables](
    answer=answer,
    sections=(
        Section(
            "Over the next batches",
            figures={"expected gains": next_gains},
            tables=(batch_table,),
        ),
        Section(
            "On this batch",
            words=reference,
            figures={
                "gain over plain": gains,
                "frontier of reward and entropy": frontier,
            },
        ),
        Section(
            "At later minibatches",
            figures={"expected gains at later minibatches": later_gains},
        ),
        Section("Try it", snippets=settings_to_paste),
        Section(
            "Do the predictions hold",
            figures={"steps that were taken": predicted},
            tables=(agreements,),
        ),
        Section(
            "All remedies at all strengths",
            figures={"distance to the frontier": distance_to_frontier},
            tables=(remedies, strengths),
            folded=True,
        ),
    ),
)
