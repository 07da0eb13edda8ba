"""Untrained models of every known architecture, two layers each, and their oracles.

The oracles are plain: whole logits of one sequence at a time, and a softmax.
"""

# Axes: T tokens of a response, V vocabulary, K tokens of all responses.

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.architectures.families import VOCABULARY as VOCABULARY
from benchmarks.architectures.families import WINDOW as WINDOW
from benchmarks.architectures.families import WITH_RULES, small_model
from benchmarks.random_tokens import as_rollouts
from entrometer.estimators import GradientWeights, Tables
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, ready
from entrometer.runs import Rollouts

ARCHITECTURES = WITH_RULES

LENGTHS = [(4, 9), (2, 5), (5, 1), (1, 7)]
"""Tokens of each prompt and of its response."""


def with_adapter(model: nn.Module, *, seed: int = 1, **settings: Any) -> nn.Module:
    """With a low-rank adapter on every linear layer but the head, B not 0."""
    usual = {"r": 3, "lora_alpha": 6, "target_modules": "all-linear"}
    config = LoraConfig(task_type="CAUSAL_LM", **(usual | settings))
    with (
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        # PEFT prepares patterns for experts, which have no linear layers here.
        warnings.filterwarnings("ignore", r"The following (rank|alpha)_pattern keys")
        torch.manual_seed(seed)
        adapted: nn.Module = get_peft_model(model, config).eval()
        for p in adapted.parameters():
            if p.requires_grad:
                p.add_(0.1 * torch.randn_like(p))
    return adapted


def as_policy(model: nn.Module, precision: str = "float64") -> Policy:
    named = Precision(precision)
    return Policy(ready(model, named), None, named, "small")


def small_policy(
    architecture: str,
    *,
    lora: bool = True,
    precision: str = "float64",
    **settings: Any,
) -> Policy:
    model = small_model(architecture, **settings)
    return as_policy(with_adapter(model) if lora else model, precision)


def random_rollouts(
    *,
    vocabulary: int = VOCABULARY,
    lengths: Sequence[tuple[int, int]] = tuple(LENGTHS),
    seed: int = 0,
    temperature: float = 0.8,
    top_p: float = 1.0,
    top_k: int = 0,
) -> Rollouts:
    """Responses of random tokens: the passes ask only where they came from."""
    rng = np.random.default_rng(seed)
    drawn = [[rng.integers(3, vocabulary, n) for n in pair] for pair in lengths]
    prompts, responses = zip(*drawn, strict=True)
    return as_rollouts(
        prompts,
        responses,
        groups=np.arange(len(lengths)) // 2,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
    )


def with_tool(rollouts: Rollouts, seed: int = 0) -> Rollouts:
    """The same tokens, a random half of which the policy did not write."""
    rng = np.random.default_rng(seed)
    masks = [rng.random(n) < 0.5 for n in rollouts.full_length]
    for mask in masks:
        mask[rng.integers(mask.size)] = True
    return replace(rollouts, written=tuple(masks))


def random_weights(rollouts: Rollouts, seed: int = 0) -> GradientWeights:
    """Of every token, as a reverse pass takes them."""
    S, H = np.random.default_rng(seed).normal(size=(2, rollouts.tokens))
    return GradientWeights(S=S, H=H)


def direction(policy: Policy, seed: int = 0, scale: float = 0.1) -> dict[str, Tensor]:
    """A random direction in all trained parameters, of the size of the weights."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: scale
        * torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p)
        for name, p in policy.trained().items()
    }


def functional(module: nn.Module) -> Callable[..., Any]:
    """The module as a function of parameters by name, tied ones in all their places."""
    known = {name for name, _ in module.named_parameters(remove_duplicate=False)}

    def call(params: dict[str, Tensor], /, *args: Any, **kwargs: Any) -> Any:
        # functional_call ignores a name that the module lacks.
        assert params.keys() <= known
        return functional_call(module, dict(params), args, kwargs, tie_weights=True)

    return call


PlainFunction = Callable[[dict[str, Tensor]], tuple[Tensor, Tensor]]


def plain_function(policy: Policy, rollouts: Rollouts) -> PlainFunction:
    """S and H as a function of trained parameters: whole logits, nothing padded."""
    call = functional(policy.model)

    def tables(params: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        columns = []
        pairs = zip(rollouts.prompt_tokens, rollouts.response_tokens, strict=True)
        for prompt, response in pairs:
            ids = torch.tensor(np.concatenate([prompt, response]))[None]
            logits_TV = call(params, input_ids=ids).logits[0, len(prompt) - 1 : -1]
            logp_TV = (logits_TV / rollouts.sampler.temperature).log_softmax(-1)
            S_T = logp_TV.gather(-1, torch.tensor(response)[:, None])[:, 0]
            columns.append((S_T, -(logp_TV.exp() * logp_TV).sum(-1)))
        S_K, H_K = (torch.cat(column) for column in zip(*columns, strict=True))
        return S_K, H_K

    return tables


def plain_tables(policy: Policy, rollouts: Rollouts) -> Tables:
    with torch.no_grad():
        S, H = plain_function(policy, rollouts)(policy.trained())
    return Tables(S=S.double().numpy(), H=H.double().numpy())


def relative(got: Any, expected: Any) -> float:
    """Error of an array over the size of what is expected, which is not 0."""
    got, expected = (np.asarray(x, np.float64) for x in (got, expected))
    size = np.linalg.norm(expected)
    assert size > 0
    assert got.shape == expected.shape
    return float(np.linalg.norm(got - expected) / size)


def vector_error(got: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Largest relative error of a tensor among those of a parameter vector."""
    assert got.keys() == expected.keys()
    return max(relative(got[name], expected[name]) for name in expected)
