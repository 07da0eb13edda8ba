"""Measurements of entropy changes on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.report.measure import change, errors, sample_size, samples, tables
from entrometer.runs.tables.measure import MeasureTables

PARTS = PageParts[MeasureTables](
    figures={
        "entropy change": change.change,
        "prediction against observation": errors.calibration,
        "relative error over batches": errors.relative_error,
        "effective sample size": sample_size.effective_samples,
        "precision": errors.precision,
        "prompts needed": sample_size.needed,
        "convergence of the entropy": sample_size.convergence,
    },
    headline=(tables.headline,),
    tables=(tables.terms, tables.variances),
    run_tables=tables.changes,
    samples=samples.samples,
)
