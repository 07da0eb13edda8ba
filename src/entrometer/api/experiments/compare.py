"""What a step under each remedy does to entropy and to reward."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entrometer.api.experiment import Experiment, Functions, records
from entrometer.api.output import interval, table
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.compare import CompareTables, Outcome


def _functions() -> Functions:
    from entrometer.experiments.comparison.compare import compare
    from entrometer.experiments.comparison.forecast import foresee

    return Functions(compare, foresee)


def _text(directory: Path) -> Sequence[str]:
    found = read_tables(directory, CompareTables)
    points = dict.fromkeys(
        (o.checkpoint, o.update, o.minibatch) for o in found.outcomes
    )
    # Differences from a step without signal are no comparison of remedies.
    silent = {
        (s.checkpoint, s.update, s.minibatch)
        for s in found.signal
        if s.groups_with_signal == 0
    }
    return [
        _point(
            name,
            [
                o
                for o in found.outcomes
                if o.tried and (o.checkpoint, o.update, o.minibatch) == name
            ],
        )
        for name in points
        if name not in silent
    ]


def _point(name: tuple[str, str, str], own: list[Outcome]) -> str:
    cells: dict[str, dict[str, Outcome]] = {}
    for o in own:
        cells.setdefault(o.settings, {})[o.objective] = o
    same = [name for name, both in cells.items() if both["entropy"].changed == 0]
    ranked = sorted(
        (both for both in cells.values() if both["entropy"].changed > 0),
        key=lambda both: -both["entropy"].told_gain.value,
    )
    rows = [
        [
            both["entropy"].settings,
            f"{both['entropy'].changed:.1%}",
            *(interval(*both[x].told_gain) for x in ("entropy", "reward")),
            _below(both["reward"]),
        ]
        for both in ranked
    ]
    heads = ["intervention", "tokens", "entropy", "reward", "below the frontier"]
    eta, share = own[0].eta, own[0].share
    return (
        f"{', '.join(name)}: against plain Dr-GRPO, a step of {eta:.3g}\n"
        + table(heads, rows, words=1)
        + f"\nas plain: {', '.join(same[1:]) or 'none'}"
        + "\nNats a token, and reward a response, more than plain's step; tokens that "
        "are treated otherwise;\nbrackets: 95% intervals on prompts that chose nothing."
        f"\nThe minibatch is {share:.0%} of the step, momentum the rest: what is kept "
        f"up comes to at most {1 / share:.3g} times its gain a step."
    )


def _below(o: Outcome) -> str:
    if math.isnan(o.below):
        return "beyond its end"
    return interval(o.below, o.below_low, o.below_high)


def _rows(directory: Path) -> dict[str, Any]:
    return records(
        read_tables(directory, CompareTables),
        "signal",
        "outcomes",
        "frontier",
        "remedies",
    )


COMPARE = Experiment(
    verb="compare",
    kind="comparison",
    tables=table_classes(CompareTables),
    config=CompareConfig,
    functions=_functions,
    text=_text,
    rows=_rows,
)
