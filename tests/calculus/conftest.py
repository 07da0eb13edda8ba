"""A policy of 200 parameters with what makes real ones awkward: attention, tied and
frozen weights, a buffer."""

# Axes: B sequences, T tokens, E embedding, V vocabulary.

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from entrometer.calculus import Vector


class TinyPolicy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.norm = nn.LayerNorm(6)
        self.mix = nn.Linear(6, 18, bias=False)
        self.up = nn.Linear(6, 6)
        self.up.weight.requires_grad_(False)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("temperature", torch.tensor(0.7))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTE = self.embed(tokens_BT)
        q, k, v = self.mix(self.norm(x_BTE)).chunk(3, dim=-1)
        length = tokens_BT.shape[1]
        future_TT = torch.ones(length, length, dtype=torch.bool).triu(1)
        a_BTT = (q @ k.mT).masked_fill(future_TT, -torch.inf).softmax(dim=-1)
        x_BTE = x_BTE + a_BTT @ v
        x_BTE = x_BTE + torch.nn.functional.silu(self.up(x_BTE))
        return self.head(x_BTE) / self.temperature


@dataclass(frozen=True)
class Policy:
    """The model as functions of its trainable parameters, on a fixed batch."""

    module: TinyPolicy
    params: dict[str, Tensor]
    tables: Callable[[Vector], tuple[Tensor, Tensor]]
    """Log-probability and entropy of every token."""

    def scores(self, params: Vector) -> Tensor:
        return self.tables(params)[0].sum(dim=-1)

    def direction(self, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {
            name: torch.randn(p.shape, generator=generator, dtype=p.dtype)
            for name, p in self.params.items()
        }


def make_policy(dtype: torch.dtype) -> Policy:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = TinyPolicy().to(dtype)
        tokens_BT = torch.randint(7, (5, 6))

    def tables(params: Vector) -> tuple[Tensor, Tensor]:
        logits = functional_call(module, dict(params), (tokens_BT[:, :-1],))
        logp_BTV = logits.log_softmax(dim=-1)
        S_BT = logp_BTV.gather(-1, tokens_BT[:, 1:, None]).squeeze(-1)
        return S_BT, -(logp_BTV.exp() * logp_BTV).sum(dim=-1)

    trained = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}
    return Policy(module, trained, tables)


@pytest.fixture
def policy() -> Policy:
    return make_policy(torch.float64)


@pytest.fixture
def policy32() -> Policy:
    return make_policy(torch.float32)
