"""Short trainings under several losses on a report page."""

from entrometer.report.fork.answer import answer
from entrometer.report.fork.figures import courses, gains
from entrometer.report.kinds import PageParts, Section
from entrometer.runs.tables.fork import ForkTables

PARTS = PageParts[ForkTables](
    answer=answer,
    sections=(
        Section(
            "Where each loss leads",
            figures={"differences from plain": gains},
        ),
        Section(
            "On the way",
            figures={"entropy and reward of the training batches": courses},
        ),
    ),
)
