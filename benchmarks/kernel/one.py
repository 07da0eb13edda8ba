"""Run one method and print its seconds and peak memory: METHOD CHECKPOINT IN OUT."""

import importlib
import json
import resource
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from entrometer.policy import load_policy
from entrometer.runs import read_rollouts

PACKAGES = {"entrometer": "torch", "vmap": "torch", "dattri": "dattri-llm"}


def main(method: str, checkpoint: str, given: str, out: str) -> None:
    torch.set_num_threads(2)
    policy = load_policy(Path(checkpoint), base="smollm2")
    rollouts = read_rollouts(given)
    by = importlib.import_module(f"benchmarks.kernel.by_{method}")
    start, work = time.perf_counter(), time.process_time()
    K = by.gram(policy, rollouts)
    seconds, work = time.perf_counter() - start, time.process_time() - work
    np.save(out, np.asarray(K, np.float64))
    # Kilobytes on Linux.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    package = PACKAGES.get(method, method)
    told = {
        "seconds": seconds,
        "work": work,
        "peak": peak,
        "version": f"{package} {metadata.version(package)}",
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
