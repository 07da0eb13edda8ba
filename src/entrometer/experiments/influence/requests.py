"""Requests of `influence` alone: past batches, blocks of the kernel, decoded texts."""

# Axes: N responses, G responses of a prompt.

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import clip_scale
from entrometer.calculus.sharded import rows_of
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
)
from entrometer.experiments.requests import (
    Request,
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
from entrometer.experiments.update import (
    StepVectors,
    adjoint,
    adjoint_rows,
    ascent_of,
    row_products,
    zero_rows,
)
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy, eos_tokens
from entrometer.runs import Rollouts
from entrometer.runs.columns import write_columns
from entrometer.runs.rows import read_rows, write_rows


@dataclass(frozen=True, kw_only=True)
class PastBatchProducts(ShardedSum):
    """Slope of every fold's objectives along an earlier batch's part of momentum."""

    kind: ClassVar[str] = "past-batch-products"
    suffix: ClassVar[str] = ".parquet"
    over: ClassVar[str] = "batch"

    step: Step
    gradients: tuple[FoldGradient, ...]
    batch: Source
    age: int
    """Optimizer steps ago; 1 for the batch just before."""

    # A forward and a backward pass.
    forwards = 2.2

    def summands(self, worker: Worker) -> Summands:
        """Return a function that gives minus the loss gradient of some responses."""
        policy = worker.checkpoint(self.subject).policy
        batch = read_batch(self.batch, worker.store)
        return lambda rows: ascent_of(policy, batch.some(rows))

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        r"""Write the product of every fold's gradients with the earlier batch's part.

        $\frac{1-\beta_1}{1-\beta_1^n}\beta_1^a c_{n-a}P\sum_k\alpha_k\nabla S_k$, with
        loss and clipping as $a$ steps ago.
        """
        checkpoint = worker.checkpoint(self.subject)
        P = self.step.read(worker.store).preconditioner
        # At today's parameters: those of the earlier step are not stored.
        limit = self.step.max_grad_norm
        c = clip_scale(total, limit) if limit else 1.0
        beta1 = checkpoint.hyperparameters.betas[0]
        # The bias correction of the next step, as in the momentum that this is part of.
        correction = 1 - beta1 ** (checkpoint.state.step + 1)
        weight = c * (1 - beta1) / correction * beta1**self.age
        part = {name: weight * P[name] * g for name, g in total.items()}
        gradients = read_fold_gradients(self.gradients, worker.store)
        products = gradient_products(gradients, {"past": part})
        write_columns(self.path(worker.store), products)


@dataclass(frozen=True, kw_only=True)
class Blocks(Request):
    """Slope of entropy by response, due to itself, its prompt's others and the rest."""

    kind: ClassVar[str] = "blocks"
    over: ClassVar[str] = "step.batch"

    step: Step

    # A forward and a backward pass, and rows of gradients twice.
    forwards = 9.0

    def run(self, worker: Worker) -> None:
        """Write three sums per response, computed one prompt group at a time."""
        products = block_products(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
        )
        write_columns(self.path(worker.store), products)


def block_products(
    policy: Policy, batch: Batch, step: StepVectors
) -> dict[str, Float[np.ndarray, " N"]]:
    r"""Return sums of $X_i\cdot Y_j$ over j: i itself, its prompt's others, the rest.

    $X_i$ are the terms of $\nabla h$ by response, with the batch as its own evaluation
    batch, and $Y_j = \kappa P\sum_{k\in j}\alpha_k\nabla S_k$.
    """
    rollouts, responses = batch.rollouts, passes.layout(batch.rollouts)
    here = passes.forward(policy, rollouts)
    statistics = entropy_statistics(responses, here.H)
    X = entropy_gradient_weights(
        responses, here, statistics, weighting=Weighting.PER_DECISION
    )
    Y = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    whole = adjoint(passes.vjp(policy, rollouts, Y).gradient, step)
    all_Y = {name: rows_of(y)[None] for name, y in whole.items()}
    itself, prompt, every = np.zeros((3, rollouts.count))
    # One prompt group at a time: each row of gradients is as large as the policy.
    for group in np.unique(rollouts.prompt):
        at = np.flatnonzero(rollouts.prompt == group)
        columns, some = responses.columns(at), rollouts.select(at)
        X_G, Y_G = (
            _rows(policy, some, GradientWeights(S=w.S[columns], H=w.H[columns]))
            for w in (X, Y)
        )
        within_GG = row_products(policy, X_G, adjoint_rows(Y_G, step)).cpu().numpy()
        itself[at], prompt[at] = np.diag(within_GG), within_GG.sum(axis=1)
        # All of Y in one row: the sum over j is inside the vector-Jacobian product.
        all_G1 = row_products(policy, X_G, all_Y)
        every[at] = all_G1[:, 0].cpu().numpy()
    return {"self": itself, "prompt": prompt - itself, "other": every - prompt}


def _rows(
    policy: Policy, rollouts: Rollouts, weights: GradientWeights
) -> dict[str, Tensor]:
    gradients = zero_rows(policy, rollouts.count)
    # Batches are sorted by length, so their rows come out of order.
    for rows, some in passes.per_sequence(policy, rollouts, weights):
        for name, g in some.items():
            gradients[name][rows] = g
    return gradients


@dataclass(frozen=True, kw_only=True)
class WithoutTokens:
    """A loss in which some tokens of the batch have weight 0."""

    places: tuple[int, ...]
    """Indices of the removed tokens among all tokens of the batch."""

    def apply(self, batch: Batch, store: Path) -> Batch:
        """Return the batch with these tokens' weights set to 0."""
        # Weight 0 instead of deletion: the other tokens keep their context.
        removed = np.isin(np.arange(batch.alpha.size), self.places)
        alpha, gamma = (np.where(removed, 0.0, w) for w in (batch.alpha, batch.gamma))
        return replace(batch, alpha=alpha, gamma=gamma)


@dataclass(frozen=True, kw_only=True)
class DecodedText:
    """One text of a batch. Untrusted: may hold control characters and markup."""

    of: str
    """`token`, `prompt`, `response` or `context`."""
    number: int
    """Id of the token, index of the response, or index of the token after the context
    among all tokens of the batch."""
    text: str
    ends: bool
    """Whether it is a token that ends a response."""


@dataclass(frozen=True)
class DecodedTexts:
    """Decoded tokens, prompts and responses of a batch."""

    tokens: dict[int, str]  #: Text of each token id.
    ends: frozenset[int]  #: Ids of the tokens that end a response.
    prompts: list[str]  #: Prompt of each response.
    responses: list[str]
    contexts: dict[int, str] = field(default_factory=dict)
    """Text just before a token that the policy did not write, such as a tool's output,
    by the index of the token among all tokens of the batch."""

    def kind(self, token: int) -> str:
        """Return the class of a token id: `end`, or the class that `kind_of` gives."""
        # By id, because the text of an end token differs between tokenizers.
        return "end" if token in self.ends else kind_of(self.tokens[token])

    def kinds(self, tokens: Iterable[int]) -> list[str]:
        """Return the class of each token id."""
        return [self.kind(token) for token in tokens]


@dataclass(frozen=True, kw_only=True)
class DecodeTokens(Request):
    """Texts of the tokens, prompts and responses of an update batch."""

    kind: ClassVar[str] = "decoded-texts"
    # The model computes nothing.
    over: ClassVar[str] = ""

    batch: Source

    def run(self, worker: Worker) -> None:
        """Decode the batch with the policy's tokenizer, and write the texts."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = read_batch(self.batch, worker.store).rollouts
        write_rows(self.path(worker.store), DecodedText, list(_texts(policy, rollouts)))

    def read(self, store: Path) -> DecodedTexts:
        """Return the texts that `run` wrote."""
        rows = read_rows(self.path(store), DecodedText)
        return DecodedTexts(
            tokens={r.number: r.text for r in rows if r.of == "token"},
            ends=frozenset(r.number for r in rows if r.ends),
            prompts=[r.text for r in rows if r.of == "prompt"],
            responses=[r.text for r in rows if r.of == "response"],
            contexts={r.number: r.text for r in rows if r.of == "context"},
        )


def kind_of(text: str) -> str:
    """Return the class of a text: `digit`, `word`, `space`, `sign` or `other`."""
    # Tokenizers attach the space before a word to the word.
    inner = text.strip()
    if not inner:
        return "space" if text else "other"
    if inner.isdecimal():
        return "digit"
    if inner.isalpha():
        return "word"
    # U+FFFD stands for bytes that are no character, so it is no sign.
    if all(unicodedata.category(c)[0] in "PS" and c != "\ufffd" for c in inner):
        return "sign"
    return "other"


def _texts(policy: Policy, rollouts: Rollouts) -> Iterator[DecodedText]:
    ends = eos_tokens(policy)
    # Each id once: a batch repeats a small vocabulary many times.
    for token in np.unique(np.concatenate(rollouts.written_tokens)).tolist():
        text = _decode(policy.tokenizer, [token])
        yield DecodedText(of="token", number=token, text=text, ends=token in ends)
    prompts, responses = rollouts.prompt_tokens, rollouts.response_tokens
    for of, rows in {"prompt": prompts, "response": responses}.items():
        for i, row in enumerate(rows):
            text = _decode(policy.tokenizer, row.tolist())
            yield DecodedText(of=of, number=i, text=text, ends=False)
    for number, context in _contexts(rollouts):
        text = _decode(policy.tokenizer, context.tolist())
        yield DecodedText(of="context", number=number, text=text, ends=False)


def _contexts(rollouts: Rollouts) -> Iterator[tuple[int, np.ndarray]]:
    """Yield tokens in a row that the policy did not write, and the next that it wrote.

    The latter as an index among all tokens that the policy wrote.
    """
    first = 0
    masks = rollouts.written or ()
    for tokens, written in zip(rollouts.response_tokens, masks, strict=False):
        places = np.flatnonzero(written)
        before = np.concatenate([[0], places[:-1] + 1])
        for k in np.flatnonzero(places > before).tolist():
            yield first + k, tokens[before[k] : places[k]]
        first += places.size


def _decode(tokenizer: Any, tokens: list[int]) -> str:
    text: str = tokenizer.decode(
        # Special tokens are tokens that the policy wrote, so they are shown.
        tokens,
        skip_special_tokens=False,
        clean_up_tokenization_spaces=False,
    )
    # A token may be part of a character; Parquet stores valid Unicode only.
    return text.encode("utf-8", "replace").decode()
