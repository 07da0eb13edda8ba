"""The tokens whose ratio matters most, in their context."""

from collections.abc import Sequence
from itertools import groupby

from entrometer.report.influence.tokens import context
from entrometer.report.mismatch.answer import MismatchRun
from entrometer.report.numbers import number, with_error
from entrometer.report.table import Table, table

_LISTED = 12


def tokens(runs: Sequence[MismatchRun]) -> Table | None:
    """Return the table of the tokens whose ratio changes entropy most."""
    rows = []
    for run in runs:
        responses = [
            list(some)
            for _, some in groupby(
                run.tables.tokens, lambda t: (t.checkpoint, t.update, t.response)
            )
        ]
        every = [(t, some, i) for some in responses for i, t in enumerate(some)]
        every.sort(key=lambda item: -abs(item[0].entropy))
        for t, some, i in every[:_LISTED]:
            rows.append(
                [
                    f"{t.checkpoint}, {t.update}",
                    context(some, i),
                    with_error(t.entropy, t.entropy_se),
                    with_error(t.reward, t.reward_se),
                    *(number(x, 3) for x in (t.S_old, t.S_engine, t.H)),
                    number(t.advantage, 2),
                ]
            )
    caption = (
        "The tokens whose ratio changes most what the step does to entropy, in "
        "brackets in their context: effect of weighing the token by m on entropy in "
        "nats per token and on reward per response, ± one standard error; log-prob by "
        "trainer and engine and entropy H in nats"
    )
    heads = ("update", "token", "on entropy", "on reward", "trainer", "engine", "H")
    return (
        table(caption, (*heads, "advantage"), rows, label_columns=2) if rows else None
    )
