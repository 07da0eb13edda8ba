"""Trajectories of trainings on a report page."""

from entrometer.report.kinds import PageParts, Section
from entrometer.report.trajectory.answer import answer
from entrometer.report.trajectory.causes import (
    draining_prompts,
    few_prompts,
    sums,
)
from entrometer.report.trajectory.curve import (
    agreements,
    by_interval,
    curve,
    totals,
)
from entrometer.runs.tables.trajectory import TrajectoryTables

PARTS = PageParts[TrajectoryTables](
    answer=answer,
    sections=(
        Section(
            "The curve, and what the updates predict of it",
            figures={"measured and predicted curve": curve},
            tables=(totals,),
        ),
        Section(
            "Step by step",
            figures={"predicted and measured": by_interval},
            tables=(agreements,),
        ),
        Section("Parts and tokens", figures={"sums by part and kind": sums}),
        Section("Prompts", words=few_prompts, tables=(draining_prompts,)),
    ),
)
