"""Larger batches and longer manifests: the same time a token, a shard, and memory."""

import os

# Of the processes of batches. glibc otherwise keeps what is freed below 32 MB, a
# quarter of `smollm2`'s memory, and how much of it depends on the order of passes: the
# peak would be the allocator's.
os.environ.update(MALLOC_MMAP_THRESHOLD_="1048576", MALLOC_TRIM_THRESHOLD_="1048576")

from benchmarks.growth.batches import batches
from benchmarks.growth.manifests import manifests
from benchmarks.harness import Report


def run() -> Report:
    grown, sizes = batches()
    listed, seconds = manifests()
    return Report([*grown, *listed], {"batches": sizes, "manifests": seconds})
