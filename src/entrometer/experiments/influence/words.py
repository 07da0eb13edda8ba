"""The update batch in words: what people see of its tokens."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from entrometer.experiments.requests import (
    Request,
    Source,
    Worker,
    read_batch,
)
from entrometer.policy import Policy, eos_tokens
from entrometer.runs import Rollouts
from entrometer.runs.rows import read_rows, write_rows


@dataclass(frozen=True, kw_only=True)
class Word:
    """A text of the batch. Untrusted: may hold control characters and markup."""

    of: str
    """`token`, `prompt` or `response`."""

    number: int
    """Id of the token, or place of the response."""

    text: str
    ends: bool
    """Whether the token ends a response."""


@dataclass(frozen=True)
class Words:
    """The texts of a batch."""

    tokens: dict[int, str]
    """By id."""

    ends: frozenset[int]
    """Ids of tokens that end a response."""

    prompts: list[str]
    responses: list[str]
    """A response each."""

    def kind(self, token: int) -> str:
        """Class of a token."""
        return "end" if token in self.ends else kind_of(self.tokens[token])


@dataclass(frozen=True, kw_only=True)
class Decoded(Request):
    """What the tokens, prompts and responses of an update batch say."""

    kind: ClassVar[str] = "words"

    batch: Source

    @property
    def price(self) -> float:
        """No pass at all."""
        return 0.0

    @property
    def batches(self) -> Sequence[Source]:
        """None: nothing is computed."""
        return []

    def carry_out(self, worker: Worker) -> None:
        """Ask the tokenizer."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = read_batch(self.batch, worker.store).rollouts
        write_rows(self.path(worker.store), Word, list(_words(policy, rollouts)))

    def read(self, store: Path) -> Words:
        """The texts."""
        rows = read_rows(self.path(store), Word)
        return Words(
            tokens={r.number: r.text for r in rows if r.of == "token"},
            ends=frozenset(r.number for r in rows if r.ends),
            prompts=[r.text for r in rows if r.of == "prompt"],
            responses=[r.text for r in rows if r.of == "response"],
        )


def kind_of(text: str) -> str:
    """Class of a text: `digit`, `word`, `space`, `sign` or `other`."""
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


def _words(policy: Policy, rollouts: Rollouts) -> Iterator[Word]:
    ends = eos_tokens(policy)
    for token in np.unique(np.concatenate(rollouts.response_tokens)).tolist():
        text = _decode(policy.tokenizer, [token])
        yield Word(of="token", number=token, text=text, ends=token in ends)
    for of, rows in (
        ("prompt", rollouts.prompt_tokens),
        ("response", rollouts.response_tokens),
    ):
        for i, row in enumerate(rows):
            text = _decode(policy.tokenizer, row.tolist())
            yield Word(of=of, number=i, text=text, ends=False)


def _decode(tokenizer: Any, tokens: list[int]) -> str:
    text: str = tokenizer.decode(
        tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    # A table holds valid Unicode only.
    return text.encode("utf-8", "replace").decode()
