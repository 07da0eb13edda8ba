"""What a pass costs: FLOP, bytes and seconds, from the architecture and a machine."""

from benchmarks.cost_model.flops.architecture import Architecture, decoder
from benchmarks.cost_model.flops.lengths import Lengths
from benchmarks.cost_model.flops.machine import H100, Machine, Rate, fit_rate
from benchmarks.cost_model.flops.memory import Memory, gradient_memory, jvp_memory
from benchmarks.cost_model.flops.precision import FORMATS, Formats
from benchmarks.cost_model.flops.work import Work

__all__ = [
    "FORMATS",
    "H100",
    "Architecture",
    "Formats",
    "Lengths",
    "Machine",
    "Memory",
    "Rate",
    "Work",
    "decoder",
    "fit_rate",
    "gradient_memory",
    "jvp_memory",
]
