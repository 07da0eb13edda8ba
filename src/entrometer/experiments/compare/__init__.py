"""What a step under each remedy does to entropy and reward: `entrometer compare`."""

import math
from collections.abc import Sequence

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.compare import CompareTables, Outcome
from entrometer.text import interval, table


def _steps() -> Steps:
    from entrometer.experiments.compare.collect import collect
    from entrometer.experiments.compare.plan import follow_up, plan
    from entrometer.experiments.compare.summary import summarize

    return Steps(plan, collect, summarize, follow_up)


def _page() -> PageParts[CompareTables]:
    from entrometer.report.compare import PARTS

    return PARTS


def _text(found: CompareTables) -> Sequence[str]:
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
        + table(heads, rows, label_columns=1)
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


COMPARE = register(
    Experiment(
        name="compare",
        help="Compare remedies for entropy collapse on a checkpoint, before training "
        "with one.",
        config=CompareConfig,
        tables=CompareTables,
        steps=_steps,
        text=_text,
        page=_page,
    )
)
