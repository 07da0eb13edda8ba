"""Requests of `influence` alone: past batches, blocks of the kernel, decoded texts."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from entrometer.calculus import Vector, clip_scale
from entrometer.experiments.influence.blocks import block_products
from entrometer.experiments.requests import (
    Request,
    Responses,
    ShardedSum,
    Source,
    Step,
    Summands,
    Worker,
    read_batch,
)
from entrometer.experiments.token_influence.gradients import gradient_products
from entrometer.experiments.token_influence.requests import (
    FoldGradient,
    read_fold_gradients,
)
from entrometer.experiments.update import StepVectors, ascent_of
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint, Policy, eos_tokens
from entrometer.runs import Rollouts
from entrometer.runs.columns import write_columns
from entrometer.runs.rows import read_rows, write_rows


@dataclass(frozen=True, kw_only=True)
class PastBatchProducts(ShardedSum):
    """Effect on every fold of what momentum still carries from an earlier batch."""

    kind: ClassVar[str] = "past-batch-products"
    suffix: ClassVar[str] = ".parquet"

    step: Step
    gradients: tuple[FoldGradient, ...]
    """One per fold."""

    batch: Source
    age: int
    """Optimizer steps ago; 1 for the batch just before."""

    @property
    def forwards(self) -> float:
        """A forward and a backward pass."""
        return 2.2

    @property
    def batches(self) -> Sequence[Responses]:
        """The earlier batch."""
        return [self.batch]

    def summands(self, worker: Worker) -> Summands:
        """Return the function that gives the gradient of some responses."""
        policy = worker.checkpoint(self.subject).policy
        batch = read_batch(self.batch, worker.store)
        return lambda rows: ascent_of(policy, batch.some(rows))

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Write the products of the batch's part with every gradient."""
        part = past_part(
            worker.checkpoint(self.subject),
            self.step.read(worker.store),
            total,
            self.age,
            max_grad_norm=self.step.max_grad_norm,
        )
        gradients = read_fold_gradients(self.gradients, worker.store)
        products = gradient_products(gradients, {"past": part})
        write_columns(self.path(worker.store), products)


def past_part(
    checkpoint: Checkpoint,
    step: StepVectors,
    ascent: Vector,
    age: int,
    *,
    max_grad_norm: float,
) -> dict[str, Tensor]:
    r"""Return the part of a step that momentum carries from a batch `age` steps ago.

    $\frac{1-\beta_1}{1-\beta_1^n}\beta_1^a c_{n-a}P\sum_k\alpha_k\nabla S_k$, with that
    step's loss and clipping. The gradient is taken at today's parameters, because those
    of the earlier step are not stored.
    """
    c = clip_scale(ascent, max_grad_norm) if max_grad_norm else 1.0
    beta1 = checkpoint.hyperparameters.betas[0]
    correction = 1 - beta1 ** (checkpoint.state.step + 1)
    weight = c * (1 - beta1) / correction * beta1**age
    return {n: weight * step.preconditioner[n] * g for n, g in ascent.items()}


@dataclass(frozen=True, kw_only=True)
class Blocks(Request):
    """Effect on each response of itself, of its prompt's others and of all others."""

    kind: ClassVar[str] = "blocks"

    step: Step

    @property
    def forwards(self) -> float:
        """A forward and a backward pass, and rows of gradients twice."""
        return 9.0

    @property
    def batches(self) -> Sequence[Responses]:
        """The update batch."""
        return [self.step.batch]

    def run(self, worker: Worker) -> None:
        """Compute rows of gradients, one prompt group at a time."""
        products = block_products(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
        )
        write_columns(self.path(worker.store), products)


@dataclass(frozen=True, kw_only=True)
class WithoutTokens:
    """A loss in which some tokens of the batch have weight 0."""

    places: tuple[int, ...]
    """Places of the tokens in the columns of the batch."""

    def apply(self, batch: Batch, store: Path) -> Batch:
        """Return the batch with these tokens' weights set to 0."""
        alpha, gamma = batch.alpha.copy(), batch.gamma.copy()
        for weights in (alpha, gamma):
            weights[np.array(self.places, np.int64)] = 0.0
        return replace(batch, alpha=alpha, gamma=gamma)


@dataclass(frozen=True, kw_only=True)
class DecodedText:
    """One text of a batch. Untrusted: may hold control characters and markup."""

    of: str
    """`token`, `prompt` or `response`."""

    number: int
    """Id of the token, or place of the response."""

    text: str
    ends: bool
    """Whether the token ends a response."""


@dataclass(frozen=True)
class DecodedTexts:
    """All texts of a batch."""

    tokens: dict[int, str]
    """By token id."""

    ends: frozenset[int]
    """Ids of the tokens that end a response."""

    prompts: list[str]
    responses: list[str]
    """One per response."""

    def kind(self, token: int) -> str:
        """Return the class of a token."""
        return "end" if token in self.ends else kind_of(self.tokens[token])


@dataclass(frozen=True, kw_only=True)
class DecodeTokens(Request):
    """Texts of the tokens, prompts and responses of an update batch."""

    kind: ClassVar[str] = "decoded-texts"

    batch: Source

    @property
    def batches(self) -> Sequence[Responses]:
        """None: the model computes nothing."""
        return []

    def run(self, worker: Worker) -> None:
        """Decode with the policy's tokenizer."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = read_batch(self.batch, worker.store).rollouts
        write_rows(self.path(worker.store), DecodedText, list(_texts(policy, rollouts)))

    def read(self, store: Path) -> DecodedTexts:
        """Return the texts."""
        rows = read_rows(self.path(store), DecodedText)
        return DecodedTexts(
            tokens={r.number: r.text for r in rows if r.of == "token"},
            ends=frozenset(r.number for r in rows if r.ends),
            prompts=[r.text for r in rows if r.of == "prompt"],
            responses=[r.text for r in rows if r.of == "response"],
        )


def kind_of(text: str) -> str:
    """Return the class of a text: `digit`, `word`, `space`, `sign` or `other`."""
    inner = text.strip()
    if not inner:
        return "space" if text else "other"
    if inner.isdecimal():
        return "digit"
    if inner.isalpha():
        return "word"
    if all(unicodedata.category(c)[0] in "PS" and c != "\ufffd" for c in inner):
        return "sign"
    return "other"


def _texts(policy: Policy, rollouts: Rollouts) -> Iterator[DecodedText]:
    ends = eos_tokens(policy)
    for token in np.unique(np.concatenate(rollouts.response_tokens)).tolist():
        text = _decode(policy.tokenizer, [token])
        yield DecodedText(of="token", number=token, text=text, ends=token in ends)
    for of, rows in (
        ("prompt", rollouts.prompt_tokens),
        ("response", rollouts.response_tokens),
    ):
        for i, row in enumerate(rows):
            text = _decode(policy.tokenizer, row.tolist())
            yield DecodedText(of=of, number=i, text=text, ends=False)


def _decode(tokenizer: Any, tokens: list[int]) -> str:
    text: str = tokenizer.decode(
        tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    # Parquet holds valid Unicode only, and a token may be half of a character.
    return text.encode("utf-8", "replace").decode()
