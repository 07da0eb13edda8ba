"""Measurements of entropy changes on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.report.measure.change import change
from entrometer.report.measure.errors import calibration, precision, relative_error
from entrometer.report.measure.sample_size import (
    convergence,
    effective_samples,
    needed,
)
from entrometer.report.measure.samples import samples
from entrometer.report.measure.tables import changes, headline, terms, variances
from entrometer.runs.tables.measure import MeasureTables

PARTS = PageParts[MeasureTables](
    figures={
        "entropy change": change,
        "prediction against observation": calibration,
        "relative error over batches": relative_error,
        "effective sample size": effective_samples,
        "precision": precision,
        "prompts needed": needed,
        "convergence of the entropy": convergence,
    },
    headline=(headline,),
    tables=(terms, variances),
    run_tables=changes,
    samples=samples,
)
