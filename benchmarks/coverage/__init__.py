"""How often each 95% interval holds the enumerated truth, over 2,000 simulations."""

import numpy as np

from benchmarks.coverage.entropy import change_cases, entropy_cases
from benchmarks.coverage.gradients import gradient_cases
from benchmarks.coverage.influence import influence_cases
from benchmarks.coverage.reward import reward_cases
from benchmarks.coverage.world import Case, World
from benchmarks.harness import Check, Report

SIMULATIONS = 2000


def run() -> Report:
    world = World()
    cases = [
        *entropy_cases(world),
        *reward_cases(world),
        *gradient_cases(world),
        *influence_cases(world),
    ]
    checks = [
        Check(f"coverage.{case.name}", coverage(case), at_least=0.93, at_most=0.97)
        for case in cases
    ]
    few = {case.name: coverage(case) for case in change_cases(World(prompts=24))}
    return Report(checks, {"simulations": SIMULATIONS, "at_24_prompts": few})


def coverage(case: Case, simulations: int = SIMULATIONS) -> float:
    """Share of simulations whose interval holds the truth; the seed is the number."""
    held = 0
    for seed in range(simulations):
        estimate, truth = case.simulate(np.random.default_rng(seed))
        held += estimate.covers(truth)
    return held / simulations
