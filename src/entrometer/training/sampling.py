"""Sampling of a trainer's model by this package, as a `rollout_func` of TRL."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from entrometer.policy import Policy, sample
from entrometer.policy.turns import Tool
from entrometer.training.instruments import trained_policy


@contextmanager
def evaluating(policy: Policy) -> Iterator[None]:
    """Evaluation mode; every module gets its own mode back afterwards."""
    modes = [(module, module.training) for module in policy.model.modules()]
    base: Any = policy.base
    embedding = base.get_input_embeddings()
    hooks = embedding._forward_hooks
    policy.model.eval()
    # With activation checkpointing, transformers and PEFT hook the embedding to make
    # its output require a gradient, which forward-mode AD does not allow. A handle to
    # remove that hook is not kept in one place, so the dictionary is exchanged.
    embedding._forward_hooks = OrderedDict(
        (key, hook)
        for key, hook in hooks.items()
        if not getattr(hook, "__name__", "").startswith("make_inputs_require_grad")
    )
    try:
        yield
    finally:
        embedding._forward_hooks = hooks
        for module, mode in modes:
            module.training = mode


@dataclass(frozen=True)
class OwnRollouts:
    """A `rollout_func` of TRL that draws as `sample` does.

    Rows of the training set name their problem in the column `problem`.
    """

    tool: Tool | None = None
    """Replies in the middle of responses."""
    keep_logprobs: bool = False
    """Whether to return the log-probs of the sampling itself, as an engine's."""

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Return the tokens of one response to each prompt, and who wrote them."""
        policy = trained_policy(trainer, "sampling by this package")
        tokens = [policy.tokenizer(prompt)["input_ids"] for prompt in prompts]
        # From torch's generator, as TRL's own sampling: checkpoints have its state, and
        # its seed differs between processes.
        seeds = torch.randint(2**63 - 1, (len(prompts),)).numpy()
        with evaluating(policy):
            rollouts = sample(
                policy,
                tokens,
                # TRL gives this function the prompts alone.
                prompt_ids=[row["problem"] for row in trainer.asked],
                temperature=trainer.temperature,
                max_tokens=trainer.max_completion_length,
                seed=seeds,
                tool=self.tool,
                keep_logprobs=self.keep_logprobs,
            )
        drawn = rollouts.engine_logprobs
        every = [np.ones(n, np.bool_) for n in rollouts.full_length]
        return {
            "prompt_ids": tokens,
            "completion_ids": [t.tolist() for t in rollouts.response_tokens],
            "logprobs": drawn and [x.tolist() for x in drawn],
            "env_mask": [m.astype(int).tolist() for m in rollouts.written or every],
        }
