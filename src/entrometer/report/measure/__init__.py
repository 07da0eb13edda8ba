"""Measurements of entropy changes on a report page."""

from entrometer.report.kinds import PageParts, Section
from entrometer.report.measure import change, curves, precision, sample_size, samples
from entrometer.report.measure.answer import answer
from entrometer.report.next_batches import batch_table
from entrometer.runs.tables.measure import MeasureTables

PARTS = PageParts[MeasureTables](
    answer=answer,
    sections=(
        Section(
            "What a step does to entropy",
            figures={"entropy change": change.change},
            tables=(curves.headline,),
        ),
        Section("Over the next batches", tables=(batch_table,)),
        Section(
            "Does the prediction hold",
            figures={"prediction against observation": change.calibration},
        ),
        Section(
            "Diagnostics of the estimators",
            figures={
                "relative error over batches": change.relative_error,
                "effective sample size": sample_size.effective_samples,
                "precision": precision.precision,
                "prompts needed": sample_size.needed,
                "convergence of the entropy": sample_size.convergence,
            },
            tables=(curves.terms, curves.variances),
            run_tables=curves.changes,
            folded=True,
        ),
    ),
    samples=samples.samples,
)
