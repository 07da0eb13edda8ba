"""Measurements of the Fisher kernel on a report page."""

from entrometer.report.kernel.blocks import blocks
from entrometer.report.kernel.elements import elements
from entrometer.report.kernel.predictions import predictions
from entrometer.report.kernel.sketches import sketches
from entrometer.report.kernel.spectrum import spectrum
from entrometer.report.kernel.whole import whole_kernels
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.kernel import KernelTables

PARTS = PageParts[KernelTables](
    figures={
        "kernel by what a pair shares": blocks,
        "spectrum": spectrum,
        "elements against length": elements,
        "held-out responses": predictions,
        "error of a sketch": sketches,
    },
    tables=(whole_kernels,),
)
