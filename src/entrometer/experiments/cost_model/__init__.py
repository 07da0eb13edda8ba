"""What a pass costs: FLOP, bytes and seconds, from the architecture and a machine."""

from entrometer.experiments.cost_model.architecture import Architecture, decoder
from entrometer.experiments.cost_model.lengths import Lengths
from entrometer.experiments.cost_model.machine import H100, Machine, Rate, fit_rate
from entrometer.experiments.cost_model.memory import ITEM_BYTES, Memory, peak_memory
from entrometer.experiments.cost_model.work import Work

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
