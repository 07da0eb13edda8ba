"""Larger batches and longer manifests: the same time a token, a shard, and memory."""

from benchmarks.growth.batches import batches
from benchmarks.growth.manifests import manifests
from benchmarks.harness import Report


def run() -> Report:
    grown, sizes = batches()
    listed, seconds = manifests()
    return Report([*grown, *listed], {"batches": sizes, "manifests": seconds})
