"""Rows of the result tables, from the tables that passes wrote; needs no model."""

# Axes: K tokens of the update batch, N responses, Q folds.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    FoldContributions,
    Influence,
    Responses,
    importance_weights,
    influence_parts,
    summed,
    token_influence,
)
from entrometer.experiments.compare.collect import collect_measured
from entrometer.experiments.compare.slopes import Measured, measured
from entrometer.experiments.influence.requests import DecodedTexts
from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.experiments.mismatch.plan import UpdatePlan
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.token_influence.halves import OBJECTIVES, contributions
from entrometer.experiments.token_influence.positions import position_ranges
from entrometer.runs.tables.mismatch import (
    Distance,
    MismatchTables,
    SamplingEngine,
    Token,
)

_SIGNS = ["negative", "zero", "positive"]
_PROBABILITIES = {1e-3: "below 0.1%", 1e-2: "0.1–1%", 0.1: "1–10%", 0.5: "10–50%"}
"""Ranges of the trainer's probability, by their upper ends; the last is above 50%."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """An update that an engine sampled, and the effect of each token's ratio."""

    point: UpdatePlan
    measured: Measured
    texts: DecodedTexts
    S_old: Float[np.ndarray, " K"]
    S_engine: Float[np.ndarray, " K"]

    @classmethod
    def of(cls, point: UpdatePlan, store: Path) -> "Sampled":
        """Return the update of a point, read from the store."""
        m = measured(point.compared, store)
        S = point.compared.seen.old.read(store).S.astype(np.float64)
        S_old = S - m.batch.log_ratio
        S_engine = m.batch.engine_logprobs(S_old)
        # The plan refuses a batch whose engine is not known.
        assert S_engine is not None, point.name
        return cls(point, m, point.texts.read(store), S_old, S_engine)

    @cached_property
    def responses(self) -> Responses:
        """Which tokens belong to which response."""
        rollouts = self.measured.batch.rollouts
        return Responses.from_lengths(rollouts.prompt, rollouts.length)

    @cached_property
    def log_m(self) -> Float[np.ndarray, " K"]:
        r"""$\log m = S_\text{old} - S_e$; 0 for tokens that the loss leaves out."""
        return np.where(self.measured.batch.counted, self.S_old - self.S_engine, 0.0)

    @property
    def names(self) -> dict[str, Any]:
        """Columns `checkpoint` and `update`."""
        point = self.point.compared
        return {"checkpoint": point.checkpoint, "update": point.update}

    def contributions(self, objective: str) -> FoldContributions:
        """Return by fold the effect of each token's weight $m$ instead of 1."""
        m, point = self.measured, self.point.compared
        w = point.eta * np.expm1(self.log_m)
        alpha, gamma = w * m.batch.alpha, w * m.batch.gamma
        by_fold, by_half = (
            influence_parts(alpha, gamma, m.dS[x], m.dH[x])
            for x in (objective, "length")
        )
        return contributions(m.evaluation, objective, by_fold, by_half.sum(axis=1))

    def effect(self, parts: FoldContributions) -> Influence:
        """Return the effect of each row of contributions, with standard errors."""
        batch = self.measured.evaluation
        count = batch.responses.count
        return token_influence(parts, prompts=batch.prompts, responses=count)


def collect(
    config: MismatchConfig, points: Sequence[UpdatePlan], store: Path
) -> MismatchTables:
    """Return all tables; the store must hold the result of every pass."""
    updates = [Sampled.of(point, store) for point in points]
    compared = collect_measured(config.compare, [u.measured for u in updates], store)
    tables = MismatchTables(**vars(compared))
    for sampled in updates:
        tables.engines.append(_engine(config, sampled))
        tables.distances.extend(_distances(sampled))
        tables.tokens.extend(_tokens(sampled))
    return tables


def _engine(config: MismatchConfig, sampled: Sampled) -> SamplingEngine:
    rollouts = sampled.measured.batch.rollouts
    by = rollouts.sampler
    how = f", {config.sampler}" if by.name == "transformers" else ""
    return SamplingEngine(
        **sampled.names,
        sampled_by=f"{by.name} {by.version}".strip() + how,
        precision=config.precision,
        responses=rollouts.count,
        effective=float(
            importance_weights(sampled.responses.total(sampled.log_m)).sum()
        ),
        eta=sampled.point.compared.eta,
    )


def _distances(sampled: Sampled) -> Iterator[Distance]:
    """Yield distance and effect of all tokens, then by each of four groupings."""
    batch, texts = sampled.measured.batch, sampled.texts
    counted = batch.counted
    tokens = np.concatenate(batch.rollouts.written_tokens).tolist()
    signs = np.sign(batch.advantage).astype(int) + 1
    ranges = [*_PROBABILITIES.values(), "above 50%"]
    places = np.searchsorted([*_PROBABILITIES], np.exp(sampled.S_old))
    position = sampled.responses.position - 1
    by_position = position_ranges(position)
    # Names of groups in the order of the rows, and the group of each token.
    labels: dict[str, tuple[list[str], np.ndarray]] = {
        "all": (["all"], np.full(position.size, "all")),
        "kind": (sorted({*texts.kinds(tokens)}), np.array(texts.kinds(tokens))),
        "position": (_in_order(by_position, position), by_position),
        "probability": (ranges, np.array(ranges)[places]),
        "advantage": (_SIGNS, np.array(_SIGNS)[signs]),
    }
    by_token = {name: sampled.contributions(name) for name in OBJECTIVES}
    m = np.exp(sampled.log_m)
    apart, divergence = np.abs(sampled.log_m), m - 1 - sampled.log_m
    for by, (names, label) in labels.items():
        numbers = {name: i for i, name in enumerate(names)}
        group = np.array([numbers[x] for x in label.tolist()], np.int64)
        effects = {
            name: sampled.effect(summed(parts, group, len(names)))
            for name, parts in by_token.items()
        }
        for i, name in enumerate(names):
            at = counted & (group == i)
            if not at.any():
                continue
            yield Distance(
                **sampled.names,
                by=by,
                name=name,
                tokens=int(at.sum()),
                size=float(apart[at].mean()),
                size_99=float(np.quantile(apart[at], 0.99)),
                largest=float(apart[at].max()),
                divergence=float(divergence[at].mean()),
                **estimate_fields("entropy", effects["entropy"][i]),
                **estimate_fields("reward", effects["reward"][i]),
            )


def _in_order(label: np.ndarray, by: np.ndarray) -> list[str]:
    return list(dict.fromkeys(label[np.argsort(by, kind="stable")].tolist()))


def _tokens(sampled: Sampled) -> Iterator[Token]:
    r, texts, batch = sampled.responses, sampled.texts, sampled.measured.batch
    entropy, reward = (
        sampled.effect(sampled.contributions(name)) for name in OBJECTIVES
    )
    columns: dict[str, Any] = {
        "response": r.spread(np.arange(r.count)),
        "position": r.position - 1,
        "token": np.concatenate(batch.rollouts.written_tokens),
        "advantage": batch.advantage,
        "S_old": sampled.S_old,
        "S_engine": sampled.S_engine,
        "H": sampled.measured.here.H,
        "entropy": entropy.value,
        "entropy_se": entropy.standard_error,
        "reward": reward.value,
        "reward_se": reward.standard_error,
    }
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        row = dict(zip(columns, values, strict=True))
        token = row["token"]
        yield Token(
            **sampled.names, text=texts.tokens[token], kind=texts.kind(token), **row
        )
