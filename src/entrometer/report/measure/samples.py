"""Sampled responses as text, as many as a page has room for."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from entrometer.report.measure.curves import MeasureRun
from entrometer.report.numbers import number, reward_words
from entrometer.report.text import shown
from entrometer.runs.tables.measure import Sample

BUDGET = 3_500_000
"""Bytes of markup for the text of all samples of a page."""


class Response(NamedTuple):
    """One response, with its length, entropy and reward in words."""

    text: str
    facts: str


class Prompt(NamedTuple):
    """A prompt and its responses."""

    number: int
    text: str
    responses: tuple[Response, ...] | tuple[Markup, ...]
    """Responses as text, or as markup with coloured tokens."""


class Checkpoint(NamedTuple):
    """The samples of a checkpoint, by prompt."""

    name: str
    facts: str
    prompts: tuple[Prompt, ...]


class Samples(NamedTuple):
    """Responses of a run that fit on the page."""

    checkpoints: list[Checkpoint]
    left_out: int
    """Number of responses that did not fit."""


def samples(run: MeasureRun, runs_on_page: int) -> Samples:
    """Return the responses of a run within its share of the page's size."""
    return by_checkpoint(run.tables.samples, BUDGET // runs_on_page)


def by_checkpoint(samples: Sequence[Sample], budget: int) -> Samples:
    """Return samples by checkpoint and prompt, and the number that did not fit.

    A sample is shown whole or not at all, in the order of the table.
    """
    kept: dict[str, dict[tuple[int, str], list[Sample]]] = {}
    left = 0
    for sample in samples:
        prompts = kept.setdefault(sample.checkpoint, {})
        key = (sample.prompt, sample.prompt_text)
        cost = len(shown(sample.response_text).encode())
        cost += 0 if key in prompts else len(shown(sample.prompt_text).encode())
        if cost > budget:
            left += 1
            continue
        budget -= cost
        prompts.setdefault(key, []).append(sample)
    return Samples([_checkpoint(*pair) for pair in kept.items()], left)


def _checkpoint(name: str, prompts: dict[tuple[int, str], list[Sample]]) -> Checkpoint:
    every = [sample for subset in prompts.values() for sample in subset]
    tokens = sum(sample.tokens for sample in every)
    facts = f"{len(every):,} responses to {len(prompts):,} prompts, {tokens:,} tokens"
    responses = {
        key: tuple(Response(s.response_text, _facts(s)) for s in subset)
        for key, subset in prompts.items()
    }
    return Checkpoint(name, facts, tuple(Prompt(*k, r) for k, r in responses.items()))


def _facts(s: Sample) -> str:
    nats = f"entropy {number(s.entropy)}, surprisal {number(s.surprisal)}"
    return f"{s.tokens:,} tokens, {nats}, {reward_words(s.reward)}"
