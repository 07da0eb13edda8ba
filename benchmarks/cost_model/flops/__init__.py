"""What a pass costs: FLOP, bytes and seconds, from the architecture and a machine."""

from benchmarks.cost_model.flops.architecture import Architecture, decoder
from benchmarks.cost_model.flops.lengths import Lengths
from benchmarks.cost_model.flops.machine import H100, Machine, Rate, fit_rate
from benchmarks.cost_model.flops.memory import ITEM_BYTES, Memory, peak_memory
from benchmarks.cost_model.flops.work import Work

__all__ = [
    "H100",
    "ITEM_BYTES",
    "Architecture",
    "Lengths",
    "Machine",
    "Memory",
    "Rate",
    "Work",
    "decoder",
    "fit_rate",
    "peak_memory",
]
