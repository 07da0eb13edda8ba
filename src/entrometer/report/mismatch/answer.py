"""What a mismatch says first: how far apart, and whether the step feels it."""

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    number_card,
)
from entrometer.report.kinds import Answer, FinishedRun
from entrometer.report.numbers import Interval, number, rate
from entrometer.runs.tables.mismatch import Distance, MismatchTables, SamplingEngine
from entrometer.text import precision_text

MismatchRun = FinishedRun[MismatchTables]


def pairs(run: MismatchRun) -> list[tuple[SamplingEngine, Distance]]:
    """Return each update's engine, and the distance of all of its tokens."""
    rows = {(d.checkpoint, d.update): d for d in run.tables.distances if d.by == "all"}
    return [(e, rows[e.checkpoint, e.update]) for e in run.tables.engines]


def answer(run: MismatchRun) -> Answer | None:
    """Return how far apart engine and trainer are, and the effect of their ratios."""
    every = pairs(run)
    if not every:
        return None
    engine, whole = max(every, key=lambda pair: pair[1].size)
    entropy, reward = (Interval.of(whole, x) for x in ("entropy", "reward"))
    felt = direction(entropy) != "may be unchanged"
    where = f" at {engine.checkpoint}, {engine.update}" if len(every) > 1 else ""
    words = (
        f"The log-probs of {engine.sampled_by} and of the trainer in "
        f"{precision_text(engine.precision)} differ by "
        f"{number(whole.size, 2)} nats per token on average{where}, and "
        f"by up to {number(whole.largest, 2)}. At "
        f"{rate(engine.eta)}, weighing every token by its ratio would change what the "
        f"step does to entropy by {entropy} nats per token and to reward by {reward}."
    )
    cards = (
        number_card(whole.size, "nats per token", "distance of the log-probs, mean"),
        estimate_card(entropy, "nats per token", "effect of the ratios on entropy"),
        estimate_card(reward, "reward per response", "effect of the ratios on reward"),
        count_card(
            round(engine.effective),
            engine.responses,
            "responses are left by the weights of whole responses",
        ),
    )
    title = (
        "the mismatch changes what the step does to entropy"
        if felt
        else "no effect of the mismatch on entropy is distinguishable from 0"
    )
    return Answer(title, words, cards)
