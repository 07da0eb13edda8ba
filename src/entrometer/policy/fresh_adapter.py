"""A low-rank adapter as a trainer would begin with."""

from collections.abc import Sequence
from math import sqrt

import torch
from peft import LoraConfig, get_peft_model
from torch import Generator, nn

from entrometer.errors import InvalidValue
from entrometer.policy.policy import Policy


def add_adapter(
    policy: Policy,
    *,
    rank: int,
    alpha: int | None = None,
    modules: Sequence[str] | None = None,
    std: float = 0.0,
    seed: int = 0,
) -> Policy:
    """The policy with a fresh adapter, which alone is then trained.

    The model inside is changed in place; see `put_fresh_adapter`.
    """
    generator = Generator().manual_seed(seed)
    model = put_fresh_adapter(
        policy.model,
        rank=rank,
        alpha=alpha,
        modules=modules,
        std=std,
        generator=generator,
    )
    return Policy(model, policy.tokenizer, policy.precision, policy.source)


def put_fresh_adapter(
    model: nn.Module,
    *,
    rank: int,
    std: float,
    generator: Generator,
    alpha: int | None = None,
    modules: Sequence[str] | None = None,
) -> nn.Module:
    r"""The model with a LoRA adapter, $W + \frac{\alpha}{r} BA$, alone trained.

    $A$ is drawn with variance one over its inputs.

    Args:
        model: Changed in place.
        rank: $r$.
        std: Standard deviation of $B$. A trainer starts at 0, where
            $\partial(BA)/\partial A = 0$ and half of the gradients vanish.
        generator: What the factors are drawn with.
        alpha: $\alpha$; twice the rank by default, so that it cannot be forgotten.
        modules: Layers that get one, by the last part of their names; by default every
            linear layer but the head.
    """
    if rank < 1 or std < 0:
        raise InvalidValue(f"expected rank >= 1 and std >= 0; got {rank} and {std}.")
    dtype = next(model.parameters()).dtype
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        target_modules="all-linear" if modules is None else list(modules),
        task_type="CAUSAL_LM",
    )
    # PEFT draws from the global generator; what it draws is replaced below.
    with torch.random.fork_rng(devices=[]):
        adapted: nn.Module = get_peft_model(model, config, autocast_adapter_dtype=False)
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if p.requires_grad:
                spread = 1 / sqrt(p.shape[-1]) if "lora_A" in name else std
                drawn = torch.randn(p.shape, generator=generator) * spread
                p.data = drawn.to(dtype=dtype, device=p.device)
    return adapted.eval()
