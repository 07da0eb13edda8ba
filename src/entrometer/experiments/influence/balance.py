"""Where the slope along an update comes from, and sums over tokens alike."""

# Axes: K tokens of the update batch, Q folds.

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer.estimators import summed
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.influence.tables import Updated
from entrometer.experiments.influence.tokens import named
from entrometer.experiments.token_influence.halves import OBJECTIVES, contributions
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.influence import Balance, Group
from entrometer.runs.tables.signal import UpdateSignal


def balance(moved: Updated, precision: str, store: Path) -> Iterator[Balance]:
    """The batch, the momentum and the decay of an update, and all of it."""
    carried = read_columns(moved.plan.carried.path(store))
    past = {
        f"past-{p.age}": read_columns(p.path(store))["past"] for p in moved.plan.past
    }
    if past:
        past["older"] = carried["history"] - sum(past.values())
    Q = moved.evaluation.folds
    for number, objective in enumerate(OBJECTIVES):
        own = slice(number * Q, (number + 1) * Q)
        # A row a gradient: those of the objectives by fold, then those of the length.
        rows = {
            "batch": (moved.parts[objective].sum(axis=0), moved.length.sum()),
            **{
                part: (column[own], column[len(OBJECTIVES) * Q :].sum())
                for part, column in (carried | past).items()
            },
        }
        found = moved.influence(
            contributions(
                moved.evaluation,
                objective,
                np.stack([by_fold for by_fold, _ in rows.values()]),
                np.array([length for _, length in rows.values()]),
            )
        )
        for i, part in enumerate(rows):
            yield Balance(
                **named(moved),
                precision=precision,
                step=moved.point.steps,
                learning_rate=moved.point.learning_rate,
                objective=objective,
                part=part,
                **estimate_fields("value", found[i]),
                prompts=moved.evaluation.prompts,
                folds=Q,
            )


def signal(moved: Updated, balance: Sequence[Balance]) -> UpdateSignal:
    """Return the groups with signal, with momentum's part from the balance."""
    entropy = {row.part: row for row in balance if row.objective == "entropy"}
    history, eta = entropy["history"], moved.point.eta
    return UpdateSignal(
        checkpoint=moved.point.name,
        update=moved.plan.name,
        minibatch="1/1",
        groups=moved.groups,
        groups_with_signal=moved.groups_with_signal,
        eta=eta,
        quantity="entropy",
        predicted=eta * entropy["total"].value,
        momentum=eta * history.value,
        momentum_se=eta * history.value_se,
        momentum_low=eta * history.value_low,
        momentum_high=eta * history.value_high,
    )


def groups(moved: Updated) -> Iterator[Group]:
    """Influence by response, prompt, sign of the advantage, position and kind."""
    r = moved.responses
    kinds = np.array([moved.words.kind(token) for token in moved.tokens.tolist()])
    labels = {
        "response": r.spread(np.arange(r.count)).astype(str),
        "prompt": r.spread(moved.group).astype(str),
        "advantage": np.array(["negative", "zero", "positive"])[
            np.sign(moved.advantage).astype(int) + 1
        ],
        "position": _ranges(r.position - 1),
        "kind": kinds,
    }
    for objective in OBJECTIVES:
        by_token = moved.contributions(objective)
        for by, label in labels.items():
            # In the order of their first token.
            order = {name: i for i, name in enumerate(dict.fromkeys(label.tolist()))}
            place = np.array([order[name] for name in label.tolist()], np.int64)
            found = moved.influence(summed(by_token, place, len(order)))
            for i, (name, count) in enumerate(
                zip(order, np.bincount(place).tolist(), strict=True)
            ):
                yield Group(
                    **named(moved),
                    objective=objective,
                    by=by,
                    name=name,
                    tokens=count,
                    **estimate_fields("value", found[i]),
                )


def _ranges(position: np.ndarray) -> np.ndarray:
    """Positions from 0 in ranges that double: 0-3, 4-7, 8-15 and so on."""
    low = 2 ** np.floor(np.log2(np.maximum(position, 1))).astype(int)
    low[position < 4] = 0
    high = np.maximum(2 * low - 1, 3)
    return np.char.add(np.char.add(low.astype(str), "-"), high.astype(str))
