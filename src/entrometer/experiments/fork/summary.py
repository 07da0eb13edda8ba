"""What a fork says in words: which loss leads where, and what differs from plain."""

from collections.abc import Iterator, Sequence
from typing import Any

from entrometer.experiments.fork.config import ForkConfig
from entrometer.experiments.result_fields import UNITS, responses_in_words
from entrometer.interventions import PLAIN
from entrometer.runs.tables.fork import ForkTables, LossOutcome
from entrometer.text import interval_of


def summarize(config: ForkConfig, tables: ForkTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a fork, as plain text."""
    names = list(dict.fromkeys(row.checkpoint for row in tables.outcomes))
    return {
        "title": f"{config.steps} steps of training under each loss",
        "sentences": [
            *(text for name in names for text in _of_checkpoint(config, tables, name)),
            _how(config),
        ],
        "warnings": [*_warnings(config, tables)],
    }


def _of_checkpoint(config: ForkConfig, tables: ForkTables, name: str) -> Iterator[str]:
    plain, *others = (row for row in tables.last if row.checkpoint == name)
    both = (_level(plain, x) for x in ("entropy", "reward"))
    yield (
        f"{name}: {config.steps} steps of plain Dr-GRPO lead to {' and '.join(both)}."
    )
    passing = [row for row in others if row.passes]
    told = "; ".join(f"{row.loss} {_gain(row, config.by)}" for row in passing)
    yield (
        f"{name}: after {config.steps} steps, {len(passing)} of {len(others)} losses "
        f"differ from plain in {config.by} at a false discovery rate of 5%"
        f"{': ' + told if told else ''}."
    )
    other = "entropy" if config.by == "reward" else "reward"
    if passing:
        first = max(passing, key=lambda row: abs(getattr(row, f"{config.by}_gain")))
        yield f"{name}: {first.loss} changes {other} by {_gain(first, other)}."
    stopped = [
        row.loss
        for row in tables.outcomes
        if row.checkpoint == name and not row.goes_on and row.steps < config.steps
    ]
    if stopped:
        yield (
            f"{name}: stopped at a halving, with the smaller gains in {config.by}: "
            f"{', '.join(stopped)}. Those that went on were chosen by the same "
            "continuations, so the best one's gain is somewhat too large."
        )


def _level(row: LossOutcome, objective: str) -> str:
    name = "an entropy" if objective == "entropy" else "a reward"
    return (
        f"{name} of {interval_of(row, objective).replace('+', '')} {UNITS[objective]}"
    )


def _gain(row: LossOutcome, objective: str) -> str:
    return f"{interval_of(row, f'{objective}_gain')} {UNITS[objective]}"


def _how(config: ForkConfig) -> str:
    rounds = "" if config.window == 1 else f", {config.window} steps per sampling"
    return (
        f"Each of {config.seeds} continuations per loss takes steps of "
        f"{config.update_prompts} prompts with "
        f"{responses_in_words(config.update_responses)} each{rounds}, at the "
        "checkpoint's learning rate; the k-th of every loss has the same prompts and "
        f"random numbers. Evaluated on {config.prompts} prompts with "
        f"{responses_in_words(config.responses)} each."
    )


def _warnings(config: ForkConfig, tables: ForkTables) -> Iterator[str]:
    if config.seeds < 4:
        yield (
            f"{config.seeds} seeds: intervals over so few continuations are wide; give "
            "--seeds 4 or more."
        )
    yield from _alike(config, tables.last)
    yield from _unbounded(tables.last)


def _alike(config: ForkConfig, rows: Sequence[LossOutcome]) -> Iterator[str]:
    for row in rows:
        same = row.entropy_gain == row.reward_gain == 0
        if same and row.loss != PLAIN:
            ratios = (
                "; every ratio is 1 at the first step after sampling: give --window 2 "
                "or more for a loss on the ratio"
                if config.window == 1
                else "; use a larger strength"
            )
            yield (
                f"{row.checkpoint}, {row.loss}: it took the steps of plain "
                f"Dr-GRPO{ratios}."
            )


def _unbounded(rows: Sequence[LossOutcome]) -> Iterator[str]:
    for row in rows:
        plain = next(r for r in rows if r.checkpoint == row.checkpoint)
        if row.entropy > 2 * plain.entropy and row.reward_gain_high < 0:
            yield (
                f"{row.checkpoint}, {row.loss}: entropy is more than twice that under "
                "plain and reward is lower: the loss may be destroying the policy. Use "
                "a smaller strength."
            )
