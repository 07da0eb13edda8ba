"""Measurements of influence on a report page."""

from entrometer.report.influence import checks, figures, tokens
from entrometer.report.influence.answer import answer
from entrometer.report.influence.token_map import token_map
from entrometer.report.kinds import PageParts, Section
from entrometer.report.next_batches import batch_table
from entrometer.runs.tables.influence import InfluenceTables

PARTS = PageParts[InfluenceTables](
    answer=answer,
    sections=(
        Section(
            "Batch or momentum",
            figures={"parts of the update": figures.balance},
        ),
        Section("Over the next batches", tables=(batch_table,)),
        Section(
            "Which tokens",
            tables=(tokens.draining_tokens,),
            tokens=token_map,
        ),
        Section(
            "Which kinds of tokens, which responses",
            figures={
                "influence by group": figures.groups,
                "entropy against reward by token": tokens.scatter,
            },
            tables=(tokens.draining_responses,),
        ),
        Section(
            "Diagnostics of the estimators",
            figures={
                "cheap scores": checks.scores,
                "tokens removed from the loss": checks.removals,
                "diagonal kernel": figures.diagonals,
            },
            folded=True,
        ),
    ),
)
