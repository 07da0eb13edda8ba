"""What the training's next batches say, in words."""

import math
from collections.abc import Iterator, Sequence

from entrometer.runs.tables.next_batches import (
    KEPT_UP,
    Advice,
    BatchChange,
    ExpectedChange,
    advice,
)
from entrometer.text import interval, interval_of

_LITTLE = 0.5
"""Effective share of the responses below which a batch is told to be worth little."""


def next_batch_sentences(rows: Sequence[ExpectedChange]) -> Iterator[str]:
    """Yield per checkpoint the expected change, and which remedy is advised."""
    for name in dict.fromkeys(row.checkpoint for row in rows):
        found = advice(rows, name)
        assert found is not None, name
        yield f"{name}, over the training's next batches: {_expected(found)}"
        if found.tested or any(row.against for row in found.rows):
            yield f"{name}, over the training's next batches: {advice_words(found)}"


def next_batch_warnings(
    rows: Sequence[ExpectedChange],
    batches: Sequence[BatchChange],
    checkpoints: Sequence[str],
    wanted: int,
) -> Iterator[str]:
    """Yield warnings for few batches, and for those that reweighting leaves little of.

    `wanted` is the number of batches that was asked for.
    """
    if wanted < 2:
        return
    for name in checkpoints:
        count = max((r.batches for r in rows if r.checkpoint == name), default=1)
        if count < wanted:
            verdict = "" if count > 1 else ", so there is no verdict on the next ones"
            yield (
                f"{name}: expected {wanted} update batches, got {count}{verdict}; "
                "others are sampled, which needs plain Dr-GRPO and a task or --reward "
                "module:function, or the training's later updates, if it recorded them"
            )
        shares = {b.batch: b.effective_share for b in batches if b.checkpoint == name}
        poor = [batch for batch, share in shares.items() if share < _LITTLE]
        if poor:
            yield (
                f"{name}: {len(poor)} of {len(shares)} update batches are later ones "
                f"that are worth less than {_LITTLE:.0%} of their responses at this "
                f"policy, the least {min(shares.values()):.0%}; intervals over batches "
                "rest on few responses"
            )


def advice_words(found: Advice) -> str:
    """Return which remedy keeps more entropy than plain, or what it would take."""
    best, closest = found.best, found.closest
    if best is not None:
        bought = found.one_step(best.loss, "reward")
        cost = ""
        if bought is not None and bought.known:
            cost = (
                "; its gain in expected reward by the next step is "
                f"{_told(bought)}, "
                + ("distinguishable from 0" if bought.passes else "not distinguishable")
            )
        return (
            f"{best.loss}, kept up for {KEPT_UP} steps, keeps {_told(best)} nats per "
            f"token, per step, more than plain; by itself it keeps more with a "
            f"probability of {best.sign_probability:.1%}{cost}. {_chosen(found)}"
        )
    if not found.tested:
        return "no remedy differs from plain on these batches."
    if closest is None:
        return (
            f"none of {len(found.tested)} remedies is expected to keep more entropy "
            "than plain."
        )
    return (
        f"no remedy is distinguishable from plain ({len(found.tested)} tested at a "
        f"false discovery rate of 5%). The closest is {closest.loss}, kept up for "
        f"{KEPT_UP} steps: {_told(closest)} nats per token, per step. {more(closest)}"
    )


def _chosen(found: Advice) -> str:
    """Return among how many gains the advised one was chosen, and which was larger."""
    among = f"of {len(found.tested)} gains at a false discovery rate of 5%"
    luck = "chosen and measured on the same batches, so its size is somewhat too large"
    assert found.best is not None
    if found.dearer is None:
        return f"It is the largest {among}, {luck}."
    price = found.one_step(found.dearer.loss, "reward")
    assert price is not None
    return (
        f"It is the largest {among} that costs at most a tenth of what plain gains in "
        f"reward, {luck}. {found.dearer.loss} keeps more, {_told(found.dearer)}, and "
        f"changes reward by {_told(price)} in the next step."
    )


def more(row: ExpectedChange) -> str:
    """Return how many batches and prompts would distinguish a change from 0."""
    times = row.times_the_data
    if not times < 1e4:
        return (
            "It is too small to be distinguished from 0 with a practical number of "
            "batches."
        )
    # Of several tests the interval alone decides less: say a fifth more.
    batches, prompts = (_round_up(1.2 * times * x) for x in (row.batches, row.prompts))
    return (
        f"If that is its true size, about {batches:,} batches and {prompts:,} prompts "
        "would be enough to distinguish it from 0 (--batches, --prompts)."
    )


def _round_up(x: float) -> int:
    unit = int(10 ** max(0, len(str(int(x))) - 2))
    return unit * math.ceil(x / unit)


def _expected(found: Advice) -> str:
    plain = found.plain
    if not plain.known:
        return (
            f"no verdict. The {plain.batches} update batches do not differ, so their "
            "steps are momentum and weight decay alone."
        )
    following = interval(plain.expected, plain.next_low, plain.next_high)
    _, _, ends = following.partition(" ")
    rate = found.plain_rate
    kept = (
        f"; kept up for {KEPT_UP} steps, by {_told(rate)} per step at the present "
        "parameters"
        if rate is not None and rate.known
        else ""
    )
    parts = interval_of(plain, "momentum")
    momentum = f", of which momentum makes {parts}" * math.isfinite(plain.momentum)
    return (
        f"one step changes entropy by {_told(plain)} nats per token on average"
        f"{momentum}, and "
        f"the next batch's step by {ends} with 95% ({plain.batches} batches, "
        f"{plain.batches_with_signal} with signal; {plain.prompts} prompts){kept}."
        f"{_bought(found)}"
    )


def _bought(found: Advice) -> str:
    reward = found.one_step(found.plain.loss, "reward")
    if reward is None or math.isnan(reward.per_nat):
        return ""
    rate = interval_of(reward, "per_nat")
    return f" Expected reward changes by {rate} per nat of that change."


def _told(row: ExpectedChange) -> str:
    return interval_of(row, "expected")
