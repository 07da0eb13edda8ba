"""Measurements of entropy changes on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.report.measure import change, curves, precision, sample_size, samples
from entrometer.runs.tables.measure import MeasureTables

PARTS = PageParts[MeasureTables](
    figures={
        "entropy change": change.change,
        "prediction against observation": change.calibration,
        "relative error over batches": change.relative_error,
        "effective sample size": sample_size.effective_samples,
        "precision": precision.precision,
        "prompts needed": sample_size.needed,
        "convergence of the entropy": sample_size.convergence,
    },
    headline=(curves.headline,),
    tables=(curves.terms, curves.variances),
    run_tables=curves.changes,
    samples=samples.samples,
)
