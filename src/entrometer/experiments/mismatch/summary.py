"""What a mismatch says in words: how far apart, what it does, what corrects it."""

from collections.abc import Iterator
from typing import Any

from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.experiments.next_batches.summary import next_batch_warnings
from entrometer.experiments.result_fields import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.compare import Outcome, Told
from entrometer.runs.tables.mismatch import (
    BY_RESPONSE,
    BY_TOKEN,
    Distance,
    MismatchTables,
    SamplingEngine,
)
from entrometer.runs.tables.next_batches import ONE_STEP
from entrometer.text import interval, interval_of, precision_text

_LITTLE = 0.5
"""Share of the responses below which their exact weights leave too few of them."""

_NAMES = {
    BY_TOKEN: "every token by its own ratio",
    BY_RESPONSE: "every response by the product of its ratios",
}


def name_of(settings: str) -> str:
    """Return what a correction does, if its settings do not say it."""
    return _NAMES.get(settings, settings)


def summarize(config: MismatchConfig, tables: MismatchTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a mismatch, as plain text."""
    return {
        "title": "Mismatch of the engine that sampled and the trainer",
        "sentences": [
            *without_signal(tables.signal),
            *(text for e in tables.engines for text in _of_engine(e, tables)),
            *_expected(tables),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *_few_left(tables),
            *next_batch_warnings(
                tables.expected,
                tables.batches,
                list(dict.fromkeys(e.checkpoint for e in tables.engines)),
                config.batches,
            ),
        ],
    }


def whole(tables: MismatchTables, engine: SamplingEngine) -> Distance:
    """Return the row of all tokens of an update."""
    return next(
        d
        for d in tables.distances
        if d.by == "all"
        and (d.checkpoint, d.update) == (engine.checkpoint, engine.update)
    )


def corrections(
    tables: MismatchTables, engine: SamplingEngine, objective: str
) -> list[Outcome]:
    """Return the corrections whose step was to be taken, the exact ones first."""
    at = (engine.checkpoint, engine.update, objective)
    rows = [
        o
        for o in tables.outcomes
        if (o.checkpoint, o.update, o.objective) == at and o.tried
    ]
    # Plain, the step without a correction, is the first.
    return rows[1:]


def _of_engine(engine: SamplingEngine, tables: MismatchTables) -> Iterator[str]:
    name, every = f"{engine.checkpoint}, {engine.update}", whole(tables, engine)
    yield (
        f"{name}: sampled by {engine.sampled_by}, measured in "
        f"{precision_text(engine.precision)}: the log-probs of {every.tokens} "
        f"tokens differ by {every.size:.2g} nats on average, "
        f"99% of them by less than {every.size_99:.2g}, one by "
        f"{every.largest:.2g}; the divergence of the engine from the trainer is "
        f"{every.divergence:.2g} nats per token. Weighed by the products of their "
        f"ratios, {engine.responses} responses are worth {engine.effective:.0f}."
    )
    entropy = interval_of(every, "entropy")
    reward = interval_of(every, "reward")
    yield (
        f"{name}: at the learning rate {engine.eta:.3g}, weighing every token by its "
        f"ratio would change what the step does to entropy by {entropy} nats per token "
        f"and to expected reward by {reward}, to first order."
    )
    both = zip(
        *(corrections(tables, engine, x) for x in ("entropy", "reward")), strict=True
    )
    # Limits that no ratio passes make equal steps: those are named together.
    equal: dict[tuple[float, Told, Told], list[Outcome]] = {}
    for h, J in both:
        equal.setdefault((h.changed, h.told_gain, J.told_gain), []).append(h)
    for (changed, entropy_gain, reward_gain), rows in equal.items():
        way = "taken" if rows[0].taken else "predicted"
        yield (
            f"{name}: {', '.join(name_of(h.settings) for h in rows)}: {changed:.1%} of "
            f"the tokens have another weight; the step, {way}, differs from the "
            f"uncorrected one by {interval(*entropy_gain)} nats per token in entropy "
            f"and by {interval(*reward_gain)} in reward."
        )


def _expected(tables: MismatchTables) -> Iterator[str]:
    rows = [r for r in tables.expected if r.against and r.horizon == ONE_STEP]
    for name in dict.fromkeys(r.checkpoint for r in rows):
        tested = [r for r in rows if r.checkpoint == name and r.known]
        passing = [r for r in tested if r.passes]
        if not tested:
            yield f"{name}: over the next batches no correction differs from none."
            continue
        told = "; ".join(
            f"{name_of(r.loss)} changes {r.objective} by {interval_of(r, 'expected')}"
            for r in passing
        )
        yield (
            f"{name}: over the next batches, {len(passing)} of {len(tested)} effects "
            f"of corrections are distinguishable from 0 at a false discovery rate of "
            f"5%{': ' + told if told else ''} ({tested[0].batches} batches, "
            f"{tested[0].prompts} prompts)."
        )


def _few_left(tables: MismatchTables) -> Iterator[str]:
    for e in tables.engines:
        if e.effective < _LITTLE * e.responses:
            yield (
                f"{e.checkpoint}, {e.update}: weighed by the products of their ratios, "
                f"{e.responses} responses are worth only {e.effective:.0f}: the exact "
                "correction by response rests on few of them. Bring the engine's "
                "numerics nearer to the trainer's, or sample shorter responses."
            )
