"""Which tokens of an update drain entropy or raise reward."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entrometer.api.experiment import Experiment, Functions, records
from entrometer.api.output import interval, table
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.influence import InfluenceTables, Token

DRAINING = 10
"""Tokens of an update that are shown."""


def _functions() -> Functions:
    from entrometer.experiments.influence.forecast import foresee
    from entrometer.experiments.influence.influence import influence

    return Functions(influence, foresee)


def _text(directory: Path) -> Sequence[str]:
    found = read_tables(directory, InfluenceTables)
    return [_balance(found), _draining(found), _kinds(found), _removals(found)]


def _balance(found: InfluenceTables) -> str:
    rows = [
        [
            b.checkpoint,
            b.update,
            b.part,
            b.objective,
            interval(
                *(b.learning_rate * x for x in (b.value, b.value_low, b.value_high))
            ),
        ]
        for b in found.balance
    ]
    return (
        table(["checkpoint", "update", "part", "of", "change"], rows, words=4)
        + "\nAt the training's learning rate, to first order: nats a token of entropy, "
        "reward a response; brackets: 95% intervals over folds of the prompts."
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
        table([*heads, "entropy", "reward"], rows, words=4)
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
            row[g.objective] = interval(
                *(rate * x for x in (g.value, g.value_low, g.value_high))
            )
    heads = ["tokens", "entropy", "reward"]
    rows = [[*name, *(row[head] for head in heads)] for name, row in cells.items()]
    return table(["checkpoint", "update", "kind", *heads], rows, words=3)


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
        table([*heads, "observed", "whole step"], rows, words=4)
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


def _rows(directory: Path) -> dict[str, Any]:
    return records(
        read_tables(directory, InfluenceTables),
        "signal",
        "balance",
        "groups",
        "scores",
        "diagonals",
        "removals",
    )


INFLUENCE = Experiment(
    verb="influence",
    kind="influence",
    tables=table_classes(InfluenceTables),
    config=InfluenceConfig,
    functions=_functions,
    text=_text,
    rows=_rows,
)
