"""What a kernel says first: how far a step on one response moves the others."""

import math

from entrometer.report.cards import (
    estimate_card,
    number_card,
    share_card,
    whole_percent,
)
from entrometer.report.kernel_predictions import relative_error
from entrometer.report.kinds import Answer, Card, FinishedRun
from entrometer.report.numbers import Interval, number
from entrometer.report.plot import grouped
from entrometer.runs.tables.kernel import KernelTables, Whole

_ADAM = "adam"


def answer(run: FinishedRun[KernelTables]) -> Answer | None:
    """Return how related responses are under Adam's metric, at the last checkpoint."""
    kernels = [w for w in run.tables.whole if w.metric == _ADAM] or run.tables.whole
    if not kernels:
        return None
    last = max(kernels, key=lambda w: w.step)
    where = f" at {last.checkpoint}" * (len({w.checkpoint for w in kernels}) > 1)
    cosines = {
        b.block: Interval.of(b, "mean")
        for b in run.tables.blocks
        if (b.checkpoint, b.metric) == (last.checkpoint, last.metric)
        and b.quantity == "cosine"
    }
    cards = [
        estimate_card(cosines[block], "", f"mean cosine, {words}{where}", signed=False)
        for block, words in (("prompt", "same prompt"), ("other", "different prompts"))
        if block in cosines
    ]
    title = "how a step on one response moves the others"
    if other := cosines.get("other"):
        title = (
            "a step on one prompt moves responses to others"
            if other.low > 0 or other.high < 0
            else "responses to different prompts are unrelated, within noise"
        )
    return Answer(title, _text(run, last, where), (*cards, *_facts(run, last)))


def _text(run: FinishedRun[KernelTables], last: Whole, where: str) -> str:
    noise = (
        "The gradient's noise equals its signal at a batch of "
        f"{number(last.noise_scale)} prompts."
        if math.isfinite(last.noise_scale)
        else "The gradient of these prompts cannot be distinguished from noise, or "
        "their rewards are not known."
    )
    return (
        f"The kernel of {last.responses:,} responses to {last.prompts:,} prompts"
        f"{where} has an effective rank of {number(last.effective_rank)}, and "
        f"{whole_percent(last.off_diagonal)} of its squared elements are off the "
        f"diagonal. {noise}"
    )


def _facts(run: FinishedRun[KernelTables], last: Whole) -> list[Card]:
    cards = [number_card(last.effective_rank, "", "effective rank of the kernel")]
    noise = Interval.of(last, "noise_scale")
    if noise.known:
        label = "noise scale of the gradient"
        cards.append(estimate_card(noise, "prompts", label, signed=False))
    rows = grouped((p.checkpoint, p) for p in run.tables.predictions)
    off = relative_error(rows.get(last.checkpoint, []))
    if math.isfinite(off):
        label = "error of predicted changes of held-out log-probabilities"
        cards.append(share_card(off, label))
    return cards
