"""What watching a GRPO trainer costs, and that two processes see what one sees."""

import numpy as np

from benchmarks.harness import Check, Report, worst
from benchmarks.probes.step_time import step_times
from benchmarks.probes.two_processes import figures


def run() -> Report:
    ratio, times = step_times()
    one, two = figures(processes=1), figures(processes=2)
    gradient = np.linalg.norm(two["gradient"] - one["gradient"], axis=1)
    gradient /= np.linalg.norm(one["gradient"], axis=1)
    noise = [
        float(np.abs(two[name] / one[name] - 1).max())
        for name in ("squared_norms", "noise_scale/trace")
    ]
    return Report(
        [
            Check("probes.step_time_over_bare", ratio, at_most=1.03),
            Check(
                "probes.two_processes.gradient_relative_difference",
                float(gradient.max()),
                at_most=1e-5,
            ),
            Check(
                "probes.two_processes.noise_scale_relative_difference",
                worst(noise),
                at_most=1e-5,
            ),
        ],
        times,
    )
