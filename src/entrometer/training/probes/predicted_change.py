"""Predicted and observed entropy change of an update."""

# Axes: P prompts, M statistics.

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector
from entrometer.errors import InvalidValue
from entrometer.estimators import (
    PromptSums,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
)
from entrometer.policy import Policy, sample
from entrometer.policy.turns import Tool
from entrometer.runs.rollouts import Rollouts
from entrometer.runs.seeds import response_seeds
from entrometer.training.instruments import (
    Instrument,
    require_complete_parameters,
    trained_policy,
    trained_precision,
)
from entrometer.training.sampling import OwnRollouts, evaluating

_REPLIES = ("tools", "rollout_func", "environment_factories")
"""Attributes of TRL's trainer with which something replies to the policy."""


def _replies(attribute: Any) -> bool:
    # This package's own sampling is by the policy alone, unless it has a tool.
    own = isinstance(attribute, OwnRollouts) and attribute.tool is None
    return bool(attribute) and not own


class PredictedChange(Instrument):
    r"""Logs $\delta h_1$ and $\Delta h$ of every n-th update, with standard errors.

    With $\theta$ the parameters before the optimizer's step and $\theta'$ after it,
    $v = \theta' - \theta$ at $\eta = 1$. One response to each of the held-out prompts
    is sampled at $\theta$, at the trainer's temperature and length limit. On these
    responses the prediction $\delta h_1 = \nabla_v h(\theta)$ is `linear_term`, from a
    `jvp` pass, and the change $\Delta h = h(\theta') - h(\theta)$ is `entropy_change`,
    from two `forward` passes: the matched pair with per-decision weights.

    Training itself does not change: weights are restored to the bit, and responses have
    their own seeds. Processes share the prompts.

    Logs `predicted_change/predicted`, `predicted_change/observed` and
    `predicted_change/error`, their paired difference, in nats per token, each with
    `_se`; `predicted_change/momentum`, the part of the prediction that AdamW's momentum
    makes, and `predicted_change/batch`, the rest; and
    `predicted_change/effective_samples` of the observed change.
    """

    last: "Predicted | None" = None
    """The newest prediction."""

    def __init__(
        self,
        *,
        every: int,
        prompts: Sequence[Sequence[int]],
        seed: int = 0,
        budget: int = passes.TOKEN_BUDGET,
        tool: Tool | None = None,
    ) -> None:
        """Measure the updates n, 2n, … on these held-out prompts, given as token ids.

        `budget` is the number of padded tokens per batch of the passes. `tool` replies
        in the middle of responses; it is called by the number of the prompt.
        """
        if every < 1 or len(prompts) < 2:
            raise InvalidValue(
                "expected every >= 1 and at least 2 prompts, which a standard error "
                f"needs, got every={every} and {len(prompts)} prompts; give more"
            )
        self.every = every
        self.prompts = [list(prompt) for prompt in prompts]
        self.seed = seed
        self.budget = budget
        self.tool = tool
        self._before: dict[str, Tensor] = {}
        self._momentum: dict[str, Tensor] = {}

    def attach(self, trainer: Any) -> None:
        """Raise if the model cannot be moved and measured."""
        require_complete_parameters(trainer, "PredictedChange")
        trained_precision(trainer.model, "PredictedChange")
        with_tools = [n for n in _REPLIES if _replies(getattr(trainer, n, None))]
        if with_tools and self.tool is None:
            raise InvalidValue(
                "PredictedChange: expected a trainer that samples by the policy alone, "
                f"got one with {with_tools[0]}, whose replies would be missing from "
                "the responses of the prediction; pass predict_every=0"
            )
        if len(self.prompts) < trainer.accelerator.num_processes:
            raise InvalidValue(
                "PredictedChange: expected a prompt for each of "
                f"{trainer.accelerator.num_processes} processes, got "
                f"{len(self.prompts)}; give more"
            )

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Copy the weights before the update."""
        if step % self.every == 0:
            policy = trained_policy(trainer, "PredictedChange")
            self._before = {n: p.clone() for n, p in policy.trained().items()}
            self._momentum = _momentum(trainer, policy)
        return {}

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Measure the change from the copied weights to the current ones."""
        if not self._before:
            return {}
        before, self._before = self._before, {}
        policy = trained_policy(trainer, "PredictedChange")
        momentum, self._momentum = _faded(trainer, policy, self._momentum), {}
        with evaluating(policy):
            linear, carried, change = self._measure(
                trainer, policy, before, momentum, step
            )
        m = len(self.prompts)
        predicted = linear_term(_of_all_processes(trainer, linear, m))
        observed = entropy_change(_of_all_processes(trainer, change, m))
        self.last = Predicted(step, predicted.value, predicted.standard_error)
        named = {
            "predicted": predicted,
            "observed": observed,
            "error": predicted - observed,
        }
        if carried is not None:
            by_momentum = linear_term(_of_all_processes(trainer, carried, m))
            named |= {"momentum": by_momentum, "batch": predicted - by_momentum}
        metrics = {}
        for name, x in named.items():
            metrics[f"predicted_change/{name}"] = x.value
            metrics[f"predicted_change/{name}_se"] = x.standard_error
        metrics["predicted_change/effective_samples"] = observed.effective_samples
        return metrics

    def _measure(
        self,
        trainer: Any,
        policy: Policy,
        before: Vector,
        momentum: Vector | None,
        step: int,
    ) -> tuple[PromptSums, PromptSums | None, PromptSums]:
        after = {name: p.clone() for name, p in policy.trained().items()}
        v = {name: after[name] - before[name] for name in after}
        _put(policy, before)
        try:
            rollouts = self._sample(trainer, policy, step)
            here = passes.forward(policy, rollouts, budget=self.budget)
            # Both directions share the forward pass.
            directions = [v] if momentum is None else [v, momentum]
            along = passes.jvp(policy, rollouts, directions, budget=self.budget)
        finally:
            _put(policy, after)
        there = passes.forward(policy, rollouts, budget=self.budget)
        responses = passes.layout(rollouts)
        weighting = Weighting.PER_DECISION
        linear, *carried = (
            linear_statistics(responses, here, tangents, weighting=weighting)
            for tangents in along.tangents
        )
        return (
            linear,
            carried[0] if carried else None,
            change_statistics(responses, here, there, weighting=weighting),
        )

    def _sample(self, trainer: Any, policy: Policy, step: int) -> Rollouts:
        every = range(len(self.prompts))
        seeds = response_seeds(int(response_seeds(self.seed, [step])[0]), every)
        process = trainer.accelerator.process_index
        share = every[process :: trainer.accelerator.num_processes]
        return sample(
            policy,
            [self.prompts[i] for i in share],
            prompt_ids=share,
            temperature=trainer.temperature,
            max_tokens=trainer.max_completion_length,
            seed=seeds[share],
            tool=self.tool,
        )


class Predicted(NamedTuple):
    """A prediction for an update."""

    step: int
    value: float
    """Predicted entropy change, nats per token."""
    standard_error: float


def _momentum(trainer: Any, policy: Policy) -> dict[str, Tensor]:
    """Copy AdamW's first moments before a step, times the learning rate and beta_1."""
    found: dict[str, Tensor] = {}
    names = {id(p): name for name, p in policy.model.named_parameters()}
    for group in trainer.optimizer.param_groups:
        for p in group["params"]:
            moment = trainer.optimizer.state.get(p, {}).get("exp_avg")
            if moment is not None:
                found[names[id(p)]] = -group["lr"] * group["betas"][0] * moment
    return found


def _faded(trainer: Any, policy: Policy, momentum: Vector) -> Vector | None:
    r"""Return momentum's part of a step, $-\eta\frac{\beta_1}{1-\beta_1^n}Pm$.

    Zero before the first step. None for an optimizer whose state is not AdamW's, such
    as moments of 8 bits: how much of its step is momentum is then not known.
    """
    states = [state for state in trainer.optimizer.state.values() if state]
    if states and not any("exp_avg" in state for state in states):
        return None
    parts = {name: torch.zeros_like(p) for name, p in policy.trained().items()}
    hyper = {id(p): g for g in trainer.optimizer.param_groups for p in g["params"]}
    parameters = dict(policy.model.named_parameters())
    for name, moment in momentum.items():
        p = parameters[name]
        state, group = trainer.optimizer.state[p], hyper[id(p)]
        n, (beta1, beta2) = float(state["step"]), group["betas"]
        root = (state["exp_avg_sq"] / (1 - beta2**n)).sqrt() + group["eps"]
        parts[name] = (moment / (1 - beta1**n) / root).to(p)
    return parts


def _put(policy: Policy, values: Vector) -> None:
    for name, p in policy.trained().items():
        p.copy_(values[name])


def _of_all_processes(trainer: Any, part: PromptSums, prompts: int) -> PromptSums:
    """Return the sums of all prompts; each prompt is on one process."""
    accelerator = trainer.accelerator
    if accelerator.num_processes == 1:
        return part
    rows_PM = np.zeros((prompts, len(part.columns)))
    rows_PM[part.prompt] = part.sums
    shared = torch.as_tensor(rows_PM, device=accelerator.device)
    rows_PM = accelerator.reduce(shared, reduction="sum").cpu().numpy()
    # With one response per prompt, the largest sum of weights is the largest weight.
    largest = rows_PM[:, part.columns.index("w")].max() if "w" in part.columns else 1.0
    return PromptSums(part.columns, np.arange(prompts), rows_PM, float(largest))
