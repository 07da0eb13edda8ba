"""Measurements of the Fisher kernel on a report page."""

from entrometer.report.kernel.elements import blocks, elements, whole_kernels
from entrometer.report.kernel.spectrum import predictions, sketches, spectrum
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
