"""What a step under each remedy does to entropy and reward: `entrometer compare`."""

import math
from collections.abc import Sequence

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.compare import CompareTables, Outcome
from entrometer.text import interval, interval_of, table


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.compare.collect import collect
    from entrometer.experiments.compare.plan import follow_up, plan
    from entrometer.experiments.compare.summary import summarize

    return Steps(plan, collect, summarize, follow_up)


def _page() -> PageParts[CompareTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.compare import PARTS

    return PARTS


def _text(tables: CompareTables) -> Sequence[str]:
    from entrometer.experiments.compare.summary import points_of, points_without_signal

    # Differences from a step without signal do not compare remedies.
    silent = points_without_signal(tables)
    points = points_of(tables.outcomes).items()
    return [_point(name, pairs) for name, pairs in points if name not in silent]


def _point(name: str, pairs: Sequence[tuple[Outcome, Outcome]]) -> str:
    same = [entropy.settings for entropy, _ in pairs if entropy.changed == 0]
    changed = [pair for pair in pairs if pair[0].changed > 0]
    rows = [
        [
            *(entropy.settings, f"{entropy.changed:.1%}"),
            *(interval(*o.told_gain) for o in (entropy, reward)),
            _distance(reward),
        ]
        for entropy, reward in sorted(changed, key=lambda x: -x[0].told_gain.value)
    ]
    heads = ["intervention", "tokens", "entropy", "reward", "below the frontier"]
    eta, share = pairs[0][0].eta, pairs[0][0].share
    return (
        f"{name}: against plain, one step at the learning rate {eta:.3g}\n"
        + table(heads, rows, label_columns=1)
        # Plain itself is the first of those that equal plain.
        + f"\nsame as plain: {', '.join(same[1:]) or 'none'}"
        + "\nEntropy (nats per token) and reward (per response) minus those of plain's "
        "step; tokens: share whose weight\ndiffers from plain's; brackets: 95% "
        "intervals on prompts that did not choose tokens.\n"
        f"The minibatch makes {share:.0%} of the step, momentum the rest: an "
        f"intervention that stays on gains at most {1 / share:.3g} times as much per "
        "step."
    )


def _distance(o: Outcome) -> str:
    # The frontier ends where no choice of tokens raises entropy further.
    if math.isnan(o.below):
        return "beyond its end"
    return interval_of(o, "below")


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
