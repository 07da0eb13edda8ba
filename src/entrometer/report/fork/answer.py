"""What a fork says first: whether a loss leads elsewhere than plain Dr-GRPO."""

from entrometer.report.cards import count_card, estimate_card
from entrometer.report.compare.points import UNITS
from entrometer.report.kinds import Answer, FinishedRun
from entrometer.report.numbers import Interval
from entrometer.runs.tables.fork import ForkTables

ForkRun = FinishedRun[ForkTables]


def answer(run: ForkRun) -> Answer | None:
    """Return the loss whose gain is largest, and whether it is distinguishable."""
    rows = run.tables.last
    names = {row.checkpoint for row in rows}
    others = [row for row in rows if row.entropy_gain or row.reward_gain]
    if len(names) != 1 or not others:
        return None
    plain, passing = rows[0], [row for row in others if row.passes]
    by = plain.by
    best = max(passing or others, key=lambda row: float(getattr(row, f"{by}_gain")))
    gain = Interval.of(best, f"{by}_gain")
    other = "reward" if by == "entropy" else "entropy"
    if not passing:
        title = f"no loss differs from plain in {by} after {plain.steps} steps"
    elif gain.value > 0:
        title = (
            f"{best.loss} keeps more {by}"
            if by == "entropy"
            else (f"{best.loss} earns more reward")
        )
    else:
        title = f"every loss that differs from plain has less {by}"
    words = (
        f"After {plain.steps} steps, plain Dr-GRPO has a reward of "
        f"{Interval.of(plain, 'reward')} and an entropy of "
        f"{Interval.of(plain, 'entropy')}. The largest gain in {by} is that of "
        f"{best.loss}: {gain} {UNITS[by]}; it changes {other} by "
        f"{Interval.of(best, f'{other}_gain')} {UNITS[other]}."
    )
    cards = (
        estimate_card(gain, UNITS[by], f"gain of {best.loss} in {by}"),
        estimate_card(
            Interval.of(best, f"{other}_gain"),
            UNITS[other],
            f"and in {other}",
        ),
        count_card(len(passing), len(others), f"losses differ from plain in {by}"),
    )
    return Answer(title, words, cards)
