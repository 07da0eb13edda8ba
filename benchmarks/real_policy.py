"""SmolLM2 with a low-rank adapter, and responses that it gave: what passes run on."""

import numpy as np
import torch

from entrometer.policy.adapter import add_adapter
from entrometer.policy.loading import load_policy
from entrometer.policy.policy import Policy
from entrometer.policy.sampling import sample
from entrometer.runs.rollouts import Rollouts
from studies.smollm2 import prepare_smollm2

RANK = 8


def smollm2(precision: str = "float32", *, std: float = 0.0) -> Policy:
    """The policy with LoRA of rank 8 on all linear layers, as a trainer begins."""
    prepare_smollm2()
    return add_adapter(load_policy("smollm2", precision=precision), rank=RANK, std=std)


def arithmetic_rollouts(
    policy: Policy, prompts: int, *, group: int = 4, max_tokens: int = 48
) -> Rollouts:
    """Responses to small sums, asked in the model's chat template."""
    rng = np.random.default_rng(0)
    questions = [
        " + ".join(map(str, rng.integers(2, 60, size=3))) for _ in range(prompts)
    ]
    tokens = [
        policy.tokenizer.apply_chat_template(
            [{"role": "user", "content": f"What is {question}?"}],
            add_generation_prompt=True,
            return_dict=True,
        )["input_ids"]
        for question in questions
    ]
    return sample(
        policy,
        tokens,
        prompt_ids=list(range(prompts)),
        responses_per_prompt=group,
        max_tokens=max_tokens,
        seed=0,
    )


def random_vector(
    policy: Policy, size: float, seed: int = 0
) -> dict[str, torch.Tensor]:
    """A random direction in the trained parameters."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: size * torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, p in policy.trained().items()
    }
