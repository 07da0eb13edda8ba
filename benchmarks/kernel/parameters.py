"""The kernel of adapters beside that of all parameters, on the tiny policy.

`python -m benchmarks.kernel.parameters` prints the table. The same policy and the same
responses; what differs is which parameters are trained. Adapters are fresh, B = 0, as
at the beginning of a training.
"""

import numpy as np
import torch

from entrometer.calculus import identity_preconditioner
from entrometer.estimators.kernel import (
    BLOCKS,
    block_mean,
    cosines,
    effective_rank,
)
from entrometer.experiments.kernel.products import kernels
from entrometer.policy.policy import Policy
from entrometer.policy.sampling import sample
from entrometer.policy.tiny import tiny_policy
from entrometer.runs.rollouts import Rollouts
from entrometer.tasks import task
from entrometer.tasks.registry import Split

RANKS = (1, 4, 16, 64)
PROMPTS, RESPONSES, TOKENS = 16, 4, 24
MEMORY = 1_000_000_000


def main() -> None:
    whole = tiny_policy(precision="float64")
    rollouts = _responses(whole)
    exact = cosines(_kernel(whole, rollouts))
    print(
        f"{rollouts.count} responses to {PROMPTS} prompts, float64, metric sgd\n"
        "| trained | parameters | cosine, prompt | cosine, other | effective rank | "
        "correlation of cosines |\n|---|---|---|---|---|---|"
    )
    for name, policy in {
        "all parameters": whole,
        **{
            f"LoRA of rank {rank}": tiny_policy(precision="float64", lora_rank=rank)
            for rank in RANKS
        },
    }.items():
        K = _kernel(policy, rollouts)
        C = cosines(K)
        upper = np.triu_indices(len(K), 1)
        means = [block_mean(C, np.asarray(rollouts.prompt), b).mean for b in BLOCKS[1:]]
        told = [f"{m.value:.3f} ± {m.standard_error:.3f}" for m in means]
        count = sum(p.numel() for p in policy.trained().values())
        alike = np.corrcoef(C[upper], exact[upper])[0, 1]
        print(
            f"| {name} | {count:,} | {told[0]} | {told[1]} | {effective_rank(K):.1f} "
            f"| {alike:.3f} |"
        )


def _responses(policy: Policy) -> Rollouts:
    judge = task("arithmetic", level="easy")
    problems = judge.problems(Split.TRAIN, PROMPTS)
    return sample(
        policy,
        [policy.tokenizer(judge.prompt(p))["input_ids"] for p in problems],
        prompt_ids=list(range(PROMPTS)),
        responses_per_prompt=RESPONSES,
        max_tokens=TOKENS,
        seed=0,
    )


def _kernel(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    P = identity_preconditioner(policy.trained())
    found = kernels(policy, rollouts, P, sketches=(), exact=True, memory=MEMORY)
    return found["sgd"].numpy()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
