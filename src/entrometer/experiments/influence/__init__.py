"""Which tokens of an update change entropy and reward: `entrometer influence`."""

from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.influence import InfluenceTables, Token
from entrometer.text import interval, table

DRAINING = 10
"""Tokens of an update that are shown."""


def _steps() -> Steps:
    from entrometer.experiments.influence.collect import collect
    from entrometer.experiments.influence.plan import plan
    from entrometer.experiments.influence.removals import follow_up
    from entrometer.experiments.influence.scores import seconds_of_scores
    from entrometer.experiments.influence.summary import summarize

    return Steps(plan, collect, summarize, follow_up, seconds_of_scores)


def _page() -> PageParts[InfluenceTables]:
    from entrometer.report.influence import PARTS

    return PARTS


def _text(found: InfluenceTables) -> Sequence[str]:
    return [_balance(found), _draining(found), _kinds(found), _removals(found)]


def _balance(found: InfluenceTables) -> str:
    rows = [
        [
            b.checkpoint,
            b.update,
            b.part,
            b.objective,
            interval(b.value, b.value_low, b.value_high, scale=b.learning_rate),
        ]
        for b in found.balance
    ]
    return (
        table(["checkpoint", "update", "part", "of", "change"], rows, label_columns=4)
        + "\nAt the training's learning rate, to first order: entropy in nats per "
        "token, reward per response; brackets: 95% intervals over folds of the prompts."
    )


def _draining(found: InfluenceTables) -> str:
    rows = []
    for name in _rates(found):
        own = [t for t in found.tokens if (t.checkpoint, t.update) == name]
        own.sort(key=lambda t: t.entropy)
        rows += [
            [
                *name,
                _in_context(found.tokens, t),
                t.kind,
                f"{t.advantage:+.3g}",
                f"{t.S:.2f}",
                f"{t.entropy:+.3g} ± {t.entropy_se:.1g}",
                f"{t.reward:+.3g} ± {t.reward_se:.1g}",
            ]
            for t in own[:DRAINING]
        ]
    heads = ["checkpoint", "update", "token", "kind", "advantage", "log p"]
    return (
        table([*heads, "entropy", "reward"], rows, label_columns=4)
        + "\nThe most draining tokens: influence per unit learning rate, ± its "
        "standard error."
    )


def _kinds(found: InfluenceTables) -> str:
    rates = _rates(found)
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for g in found.groups:
        if g.by == "kind":
            rate = rates[g.checkpoint, g.update]
            row = cells.setdefault(
                (g.checkpoint, g.update, g.name), {"tokens": str(g.tokens)}
            )
            row[g.objective] = interval(g.value, g.value_low, g.value_high, scale=rate)
    heads = ["tokens", "entropy", "reward"]
    rows = [[*name, *(row[head] for head in heads)] for name, row in cells.items()]
    return table(["checkpoint", "update", "kind", *heads], rows, label_columns=3)


def _removals(found: InfluenceTables) -> str:
    rows = [
        [
            r.checkpoint,
            r.update,
            r.by,
            r.objective,
            str(r.tokens),
            interval(r.predicted, r.predicted_low, r.predicted_high),
            interval(r.observed, r.observed_low, r.observed_high),
            f"{r.whole:+.3g}",
        ]
        for r in found.removals
    ]
    if not rows:
        return ""
    heads = ["checkpoint", "update", "removed by", "of", "tokens", "predicted"]
    return (
        table([*heads, "observed", "whole step"], rows, label_columns=4)
        + "\nTokens taken out of the loss: what that changes, on prompts that did not "
        "choose them."
    )


def _in_context(tokens: list[Token], t: Token) -> str:
    """The token in brackets, with a little of its response around it."""
    beside = {
        x.position: x.text
        for x in tokens
        if (x.checkpoint, x.update, x.response) == (t.checkpoint, t.update, t.response)
    }
    before = "".join(beside.get(t.position - d, "") for d in (3, 2, 1))
    after = "".join(beside.get(t.position + d, "") for d in (1, 2))
    return f"{before}[{t.text}]{after}".replace("\n", "\\n")


def _rates(found: InfluenceTables) -> dict[tuple[str, str], float]:
    """Learning rate of the training, by checkpoint and update."""
    return {(b.checkpoint, b.update): b.learning_rate for b in found.balance}


_PRINTED = ("signal", "balance", "groups", "scores", "diagonals", "removals")
"""Tables that `--json` prints: all but those with one row per token or response."""

INFLUENCE = register(
    Experiment(
        name="influence",
        help="Find which tokens of an update drain entropy or raise reward, and by how "
        "much.",
        config=InfluenceConfig,
        tables=InfluenceTables,
        steps=_steps,
        text=_text,
        json_rows=lambda tables: {name: getattr(tables, name) for name in _PRINTED},
        page=_page,
    )
)
