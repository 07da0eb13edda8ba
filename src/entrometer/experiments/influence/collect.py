"""Rows of the result tables, from the tables that passes wrote; needs no model."""

# Axes: K tokens of the update batch, Q folds.

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.estimators import Estimate, FoldContributions, summed
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.influence.removals import removals
from entrometer.experiments.influence.scores import diagonals, scores
from entrometer.experiments.influence.tables import Updated, numbered, updated
from entrometer.experiments.next_batches.collect import (
    batch_changes,
    expected_changes,
    read_effects,
)
from entrometer.experiments.result_fields import estimate_fields, update_signal
from entrometer.experiments.token_influence.gradients import by_objective
from entrometer.experiments.token_influence.halves import OBJECTIVES, contributions
from entrometer.experiments.token_influence.positions import position_ranges
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.influence import (
    Balance,
    Group,
    InfluenceTables,
    Response,
    Token,
)


def collect(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], store: Path
) -> InfluenceTables:
    """Return all result tables; the store must hold the result of every pass."""
    tables = InfluenceTables()
    for point in points:
        evaluation = point.read_batch(store)
        for planned in point.updates:
            update = updated(point, planned, evaluation, store)
            tables.tokens.extend(_tokens(update))
            tables.responses.extend(_responses(update))
            parts = _parts(update, store)
            tables.balance.extend(
                Balance(
                    **update.names,
                    precision=config.precision,
                    step=point.steps,
                    learning_rate=point.learning_rate,
                    objective=objective,
                    part=part,
                    **estimate_fields("value", estimate),
                    prompts=evaluation.prompts,
                    folds=evaluation.folds,
                    responses=evaluation.effective(objective),
                )
                for (objective, part), estimate in parts.items()
            )
            # At the learning rate of the check: the training's unless --eta is given.
            tables.signal.append(
                update_signal(
                    update.batch.groups_with_signal,
                    parts["entropy", "history"],
                    scale=point.eta,
                    **update.names,
                    eta=point.eta,
                    predicted=point.eta * parts["entropy", "total"].value,
                )
            )
            tables.groups.extend(_groups(update))
            tables.scores.extend(scores(update, config.seed, store))
            tables.diagonals.extend(diagonals(update, store))
            tables.removals.extend(removals(update, store))
        effects = read_effects(point, point.eta, store)
        tables.expected.extend(expected_changes(effects))
        tables.batches.extend(batch_changes(effects))
    return tables


def _tokens(update: Updated) -> Iterator[Token]:
    r, texts = update.responses, update.texts
    entropy, reward = (update.influence(update.contributions(x)) for x in OBJECTIVES)
    columns: dict[str, Any] = {
        "response": r.spread(np.arange(r.count)),
        "group": r.spread(update.group),
        "position": r.position - 1,
        "token": np.concatenate(update.batch.rollouts.written_tokens),
        "advantage": update.batch.advantage,
        "alpha": update.batch.alpha,
        "S": update.here.S,
        "H": update.here.H,
        "entropy": entropy.value,
        "entropy_se": entropy.standard_error,
        "reward": reward.value,
        "reward_se": reward.standard_error,
    }
    contexts = texts.contexts
    # tolist gives Python numbers a column at a time, far faster than one by one.
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    for k, values in enumerate(rows):
        row = dict(zip(columns, values, strict=True))
        token = row["token"]
        text, kind = texts.tokens[token], texts.kind(token)
        yield Token(
            **update.names, text=text, kind=kind, context=contexts.get(k, ""), **row
        )


def _responses(update: Updated) -> Iterator[Response]:
    for i in range(update.responses.count):
        yield Response(
            **update.names,
            response=i,
            group=int(update.group[i]),
            prompt_text=update.texts.prompts[i],
            text=update.texts.responses[i],
            reward=float(update.batch.rollouts.reward[i]),
        )


def _parts(update: Updated, store: Path) -> dict[tuple[str, str], Estimate]:
    """Return the slope along each part of an update, by objective and part."""
    estimates: dict[tuple[str, str], Estimate] = {}
    for objective in OBJECTIVES:
        parts, by_fold = part_contributions(update, objective, store)
        slopes = update.influence(by_fold)
        estimates |= {(objective, part): slopes[i] for i, part in enumerate(parts)}
    return estimates


def part_contributions(
    update: Updated, objective: str, store: Path
) -> tuple[list[str], FoldContributions]:
    """Return the parts of an update, and an objective's slope along each, by fold."""
    columns = read_columns(update.plan.carried.path(store))
    past = {
        f"past-{p.age}": read_columns(p.path(store))["past"] for p in update.plan.past
    }
    if past:
        # Batches that were not recorded, or are older than `past`, make the remainder.
        past["older"] = columns["history"] - sum(past.values())
    by_fold = {"batch": update.parts[objective].sum(axis=0)}
    length = {"batch": update.length.sum()}
    for part, column in (columns | past).items():
        products = by_objective(column)
        by_fold[part], length[part] = products[objective], products["length"].sum()
    rows, lengths = np.stack([*by_fold.values()]), np.array([*length.values()])
    return list(by_fold), contributions(update.evaluation, objective, rows, lengths)


def _groups(update: Updated) -> Iterator[Group]:
    """Yield influence by response, prompt, sign of the advantage, position and kind."""
    r, texts = update.responses, update.texts
    tokens = np.concatenate(update.batch.rollouts.written_tokens).tolist()
    signs = np.sign(update.batch.advantage).astype(int) + 1
    labels = {
        "response": r.spread(np.arange(r.count)).astype(str),
        "prompt": r.spread(update.group).astype(str),
        "advantage": np.array(["negative", "zero", "positive"])[signs],
        "position": position_ranges(r.position - 1),
        "kind": np.array(texts.kinds(tokens)),
    }
    for objective in OBJECTIVES:
        by_token = update.contributions(objective)
        for by, label in labels.items():
            place = numbered(label)
            names, counts = dict.fromkeys(label.tolist()), np.bincount(place).tolist()
            # Summed before the standard error is taken: tokens share the noise of the
            # evaluation batch.
            sums = update.influence(summed(by_token, place, len(names)))
            for i, (name, count) in enumerate(zip(names, counts, strict=True)):
                yield Group(
                    **update.names,
                    objective=objective,
                    by=by,
                    name=name,
                    tokens=count,
                    **estimate_fields("value", sums[i]),
                )
