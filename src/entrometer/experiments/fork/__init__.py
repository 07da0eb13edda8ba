"""Short trainings under several losses from one checkpoint: `entrometer fork`."""

import math
from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.fork.config import ForkConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.fork import ForkTables, LossOutcome
from entrometer.text import interval_of, table


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.fork.collect import collect
    from entrometer.experiments.fork.plan import follow_up, guess, plan
    from entrometer.experiments.fork.summary import summarize

    return Steps(
        *(plan, collect, summarize, follow_up),
        rounds=lambda config: config.halvings,
        guess=guess,
    )


def _page() -> PageParts[ForkTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.fork import PARTS

    return PARTS


def _text(tables: ForkTables) -> Sequence[str]:
    texts = []
    for name in dict.fromkeys(row.checkpoint for row in tables.outcomes):
        rows = [
            [
                *(str(o.steps), o.loss),
                *(_level(o, "entropy"), _gain(o, "entropy")),
                *(_level(o, "reward"), _gain(o, "reward")),
            ]
            for o in tables.outcomes
            if o.checkpoint == name
        ]
        heads = ["steps", "loss", "entropy", "over plain", "reward", "over plain"]
        texts.append(
            f"{name}: after so many optimizer steps under each loss\n"
            + table(heads, rows, label_columns=2)
            + "\nEntropy in nats per token, reward per response, with 95% intervals "
            "over seeds\nand evaluation prompts; differences from plain Dr-GRPO are "
            "paired by both."
        )
    return texts


def _level(o: LossOutcome, objective: str) -> str:
    return interval_of(o, objective).replace("+", "")


def _gain(o: LossOutcome, objective: str) -> str:
    # Without an interval: of plain itself, or of a loss that has changed nothing.
    gain, low = (getattr(o, f"{objective}_gain{end}") for end in ("", "_low"))
    known = gain or not math.isnan(low)
    return interval_of(o, f"{objective}_gain") if known else "0"


FORK = register(
    Experiment(
        name="fork",
        help="Train a few steps under each of several losses from a checkpoint, with "
        "the same prompts and random numbers, and compare where they lead.",
        config=ForkConfig,
        tables=ForkTables,
        steps=_steps,
        text=_text,
        # A row per evaluation prompt would make the output of --json too large.
        json_rows=lambda tables: {"outcomes": tables.outcomes},
        page=_page,
        grades=True,
    )
)
