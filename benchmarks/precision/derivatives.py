"""Forward-mode derivatives against central differences, and the spy on operations."""

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.harness import Check
from benchmarks.real_policy import arithmetic_rollouts, random_vector, smollm2
from entrometer import passes
from entrometer.policy.adapter import put_fresh_adapter
from entrometer.policy.float64 import true_float64
from entrometer.policy.policy import Policy
from entrometer.policy.precision import LowPrecisionSpy, Precision
from entrometer.policy.sampling import sample
from entrometer.runs.rollouts import Rollouts

STEP = 1e-5
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text")


def architecture_checks() -> list[Check]:
    checks = []
    for family in FAMILIES:
        policy = small(family)
        prompts = [[3 + i, 7, 5 + 2 * i] for i in range(3)]
        rollouts = sample(policy, prompts, prompt_ids=[0, 1, 2], max_tokens=10, seed=0)
        checks += derivative_checks(f"precision.{family}", policy, rollouts, 0.1)
    return checks


def smollm2_checks() -> list[Check]:
    policy = smollm2("float64", std=0.01)
    rollouts = arithmetic_rollouts(policy, prompts=2, group=1, max_tokens=24)
    return derivative_checks("precision.smollm2", policy, rollouts, 0.01)


def naive_error() -> float:
    """The same difference of dS for the model after a plain cast to float64."""
    single = smollm2("float32", std=0.01)
    rollouts = arithmetic_rollouts(single, prompts=2, group=1, max_tokens=24)
    single.model.double()
    naive = Policy(single.model, single.tokenizer, Precision.FLOAT64, single.source)
    v = random_vector(naive, 0.01)
    return _errors(naive, rollouts, v)["dS"]


def derivative_checks(
    name: str, policy: Policy, rollouts: Rollouts, size: float
) -> list[Check]:
    """Relative differences of jvp and differences, and operations below float64.

    The direction is small enough that the third derivative, times the square of the
    step, stays below the limit.
    """
    v = random_vector(policy, size)
    with LowPrecisionSpy() as spy:
        errors = _errors(policy, rollouts, v)
    return [
        Check(f"{name}.operations_below_float64", spy.found.total(), at_most=0),
        *(
            Check(f"{name}.{tangent}.relative_error", error, at_most=1e-7)
            for tangent, error in errors.items()
        ),
    ]


def _errors(
    policy: Policy, rollouts: Rollouts, v: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Relative difference of forward-mode derivatives and central differences."""
    tangents = passes.jvp(policy, rollouts, [v]).tangents[0]
    ahead, behind = passes.forward_along(policy, rollouts, v, [STEP, -STEP])
    differences = {
        "dS": (ahead.S - behind.S) / (2 * STEP),
        "dH": (ahead.H - behind.H) / (2 * STEP),
    }
    return {
        name: float(np.linalg.norm(difference - exact) / np.linalg.norm(exact))
        for (name, difference), exact in zip(differences.items(), tangents, strict=True)
    }


def small(family: str) -> Policy:
    """A random instance of two layers, with what its architecture is awkward with."""
    options = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 101,
        "max_position_embeddings": 128,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if family in ("mistral", "gemma2", "gemma3_text"):
        options["sliding_window"] = 6
    if family in ("gemma2", "gemma3_text"):
        options["query_pre_attn_scalar"] = 16
    config = AutoConfig.for_model(family, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator))
    adapted = put_fresh_adapter(model, rank=4, std=0.1, generator=generator)
    return Policy(true_float64(adapted), _Ids(), Precision.FLOAT64, family)


class _Ids:
    """Stands for a tokenizer where text does not matter."""

    eos_token_id = 2
    pad_token_id = 0

    def decode(self, tokens: list[int], **_: object) -> str:
        return " ".join(map(str, tokens))
