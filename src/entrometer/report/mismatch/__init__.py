"""Mismatches of engine and trainer on a report page."""

from entrometer.report.compare.agreement import agreements, predicted
from entrometer.report.compare.gains import gains
from entrometer.report.kinds import PageParts, Section
from entrometer.report.mismatch.answer import answer
from entrometer.report.mismatch.distances import apart, by_group, effects
from entrometer.report.mismatch.tokens import tokens
from entrometer.report.next_batches import batch_table, next_gains
from entrometer.runs.tables.mismatch import MismatchTables

PARTS = PageParts[MismatchTables](
    answer=answer,
    sections=(
        Section(
            "How far apart engine and trainer are",
            figures={"distance of the log-probs": apart},
            tables=(by_group,),
        ),
        Section(
            "What it does to the step",
            figures={"effect by group of tokens": effects, "corrections": gains},
            tables=(tokens,),
        ),
        Section(
            "Over the next batches",
            figures={"expected effects": next_gains},
            tables=(batch_table,),
        ),
        Section(
            "Do the predictions hold",
            figures={"steps that were taken": predicted},
            tables=(agreements,),
        ),
    ),
)
