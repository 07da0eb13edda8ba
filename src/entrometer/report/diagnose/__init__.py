"""Diagnoses on a report page: the answer, then the parts of three experiments."""

from dataclasses import replace

from entrometer.report import compare, influence, measure
from entrometer.report.compare.answer import reference
from entrometer.report.compare.frontier import frontier
from entrometer.report.compare.gains import gains
from entrometer.report.diagnose.answer import (
    answer,
    how_sure,
    lines_to_paste,
    tokens_in_words,
)
from entrometer.report.diagnose.heading import heading
from entrometer.report.influence import tokens
from entrometer.report.influence.token_map import token_map
from entrometer.report.kinds import PageParts, Section
from entrometer.report.next_batches import batch_table, next_gains
from entrometer.runs.tables.diagnose import DiagnoseTables

_SHOWN = {"Over the next batches", "On this batch", "Try it", "Which tokens"}
"""Sections of the three experiments that have one of their own here."""

PARTS = PageParts[DiagnoseTables](
    answer=answer,
    sections=(
        Section("Where it is heading", figures={"entropy of the training": heading}),
        Section(
            "What would help",
            words=reference,
            figures={"expected gains": next_gains, "gain over plain": gains},
        ),
        Section("Batch by batch", tables=(batch_table,)),
        Section("Try it", snippets=lines_to_paste),
        Section(
            "Which tokens",
            words=tokens_in_words,
            tables=(tokens.draining_tokens,),
            tokens=token_map,
        ),
        Section("How sure is this", words=how_sure),
        Section(
            "Reward against entropy",
            figures={"frontier of reward and entropy": frontier},
            folded=True,
        ),
        # How each part was measured: folded, for those who want to check it.
        *(
            # A title says whose it is: each of the three has diagnostics.
            replace(section, title=f"{name}: {section.title}", folded=True)
            for name, parts in (
                ("measure", measure.PARTS),
                ("influence", influence.PARTS),
                ("compare", compare.PARTS),
            )
            for section in parts.sections
            if section.title not in _SHOWN
        ),
    ),
)
