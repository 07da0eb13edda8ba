"""The enumerated problem that every interval is tried on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.calculus import add, norm, scale
from entrometer.estimators import Estimate


@dataclass(frozen=True)
class Case:
    """One interval: a simulation gives the estimate and the truth it is for."""

    name: str
    simulate: Callable[[np.random.Generator], tuple[Estimate, float]]


@dataclass(frozen=True, eq=False)
class World:
    """16 prompts, responses of up to 4 tokens, a direction half uphill in entropy."""

    prompts: int = 96
    """Prompts of a simulated batch."""

    group: int = 2
    """Responses to each."""

    eta: float = 0.3
    """Size of the true step: sequence weights from 0.35 to 4."""

    @cached_property
    def enumerated(self) -> Enumerated:
        world = Enumerated.random(5, oracles.EnumerablePolicy(prompts=16))
        # Half along the entropy's gradient: a linear regime is asked for only where
        # there is a slope.
        uphill = oracles.gradient(
            oracles.entropy_per_sequence(world.policy), world.theta
        )
        v = add(world.v, uphill, scale=1 / norm(uphill).item())
        return Enumerated(world.policy, world.theta, scale(v, 1.4))

    @cached_property
    def moved(self) -> dict[str, Tensor]:
        """Parameters after the step."""
        e = self.enumerated
        return oracles.moved(e.theta, dict(e.v), self.eta)

    @cached_property
    def rewards(self) -> Tensor:
        """1 where the first token is 1: prompts agree on which way is up."""
        policy = self.enumerated.policy
        first = policy.sequences()[:, 0] == 1
        return first.double().repeat(policy.prompts, 1)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Rows of one simulated batch, (prompts, group)."""
        return self.enumerated.draw_groups(rng, self.prompts, self.group)
