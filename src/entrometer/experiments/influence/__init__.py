"""Which tokens of an update change entropy and reward: `entrometer influence`."""

import math
from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.influence import InfluenceTables, Token
from entrometer.text import interval_of, table

DRAINING = 10
"""Rows per update in the printed table of the tokens that lower entropy most."""


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.influence.collect import collect
    from entrometer.experiments.influence.plan import plan
    from entrometer.experiments.influence.removals import follow_up
    from entrometer.experiments.influence.scores import seconds_of_scores
    from entrometer.experiments.influence.summary import summarize

    return Steps(plan, collect, summarize, follow_up, seconds_of_scores)


def _page() -> PageParts[InfluenceTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.influence import PARTS

    return PARTS


def _text(tables: InfluenceTables) -> Sequence[str]:
    return [_balance(tables), _draining(tables), _kinds(tables), _removals(tables)]


def _balance(tables: InfluenceTables) -> str:
    rows = [
        [
            *(b.checkpoint, b.update, b.part, b.objective),
            interval_of(b, "value", scale=b.learning_rate),
        ]
        for b in tables.balance
    ]
    return (
        table(["checkpoint", "update", "part", "of", "change"], rows, label_columns=4)
        + "\nFirst-order change at the training's learning rate: entropy in nats per "
        "token, reward per response; brackets: 95% intervals over folds of the prompts."
    )


def _draining(tables: InfluenceTables) -> str:
    rows = []
    for name in dict.fromkeys((t.checkpoint, t.update) for t in tables.tokens):
        tokens = [t for t in tables.tokens if (t.checkpoint, t.update) == name]
        texts = {(t.response, t.position): t.context + t.text for t in tokens}
        rows += [
            [
                *(*name, _in_context(texts, t), t.kind),
                *(f"{t.advantage:+.3g}", f"{t.S:.2f}"),
                _with_error(t.entropy, t.entropy_se),
                _with_error(t.reward, t.reward_se),
            ]
            for t in sorted(tokens, key=lambda t: t.entropy)[:DRAINING]
        ]
    heads = ["checkpoint", "update", "token", "kind", "advantage", "log p"]
    return (
        table([*heads, "entropy", "reward"], rows, label_columns=4)
        + "\nTokens that lower entropy most: influence per unit learning rate, ± its "
        "standard error."
    )


def _with_error(value: float, error: float) -> str:
    return "not known" if math.isnan(value) else f"{value:+.3g} ± {error:.1g}"


def _in_context(texts: dict[tuple[int, int], str], t: Token) -> str:
    before, after = (
        "".join(texts.get((t.response, t.position + d), "") for d in distances)
        for distances in ((-3, -2, -1), (1, 2))
    )
    # A line break would break the row of the table.
    return f"{before}{t.context}[{t.text}]{after}".replace("\n", "\\n")


def _kinds(tables: InfluenceTables) -> str:
    rates = {(b.checkpoint, b.update): b.learning_rate for b in tables.balance}
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for g in tables.groups:
        if g.by == "kind":
            name = (g.checkpoint, g.update, g.name)
            row = cells.setdefault(name, {"tokens": str(g.tokens)})
            rate = rates[g.checkpoint, g.update]
            row[g.objective] = interval_of(g, "value", scale=rate)
    heads = ["tokens", "entropy", "reward"]
    rows = [[*name, *(row[head] for head in heads)] for name, row in cells.items()]
    return table(["checkpoint", "update", "kind", *heads], rows, label_columns=3)


def _removals(tables: InfluenceTables) -> str:
    rows = [
        [
            *(r.checkpoint, r.update, r.by, r.objective, str(r.tokens)),
            interval_of(r, "predicted"),
            interval_of(r, "observed"),
            f"{r.whole:+.3g}",
        ]
        for r in tables.removals
    ]
    if not rows:
        return ""
    heads = ["checkpoint", "update", "removed by", "of", "tokens", "predicted"]
    return (
        table([*heads, "observed", "whole step"], rows, label_columns=4)
        + "\nEffect of removing tokens from the loss, measured on other prompts than "
        "those by which the tokens were chosen."
    )


# Tables with one row per token or response would make the output of --json too large.
_PRINTED = ("signal", "balance", "groups", "scores", "diagonals", "removals")

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
