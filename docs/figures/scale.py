"""Print the tables of docs/design/scale.md: what the cost model says past one machine.

Usage: python docs/figures/scale.py
"""

from collections.abc import Callable

from benchmarks.cost_model.scale.fit_tables import (
    print_exchange,
    print_fit,
    print_memory,
)
from benchmarks.cost_model.scale.storage_tables import print_loading, print_vectors
from benchmarks.cost_model.scale.time_tables import (
    print_drawing,
    print_head,
    print_lengths,
    print_measurement,
    print_passes,
)

TABLES: dict[str, Callable[[], None]] = {
    "Fewest H100 of a worker": print_fit,
    "10⁶ sequences × 20 checkpoints": print_measurement,
    "Memory of a GPU": print_memory,
    "GPU-seconds per thousand sequences": print_passes,
    "Bytes that a worker's GPUs exchange per call": print_exchange,
    "Lengths": print_lengths,
    "Drawing": print_drawing,
    "Vectors": print_vectors,
    "Loading": print_loading,
    "The head": print_head,
}

if __name__ == "__main__":
    for title, show in TABLES.items():
        print(f"## {title}\n")
        show()
