"""What several updates say of later minibatches, in words."""

from collections.abc import Iterator, Sequence

from entrometer.runs.tables.next_batches import LaterChange
from entrometer.text import interval_of

_NAMED = 5
"""Most gains that a sentence names, the largest first."""


def later_sentences(rows: Sequence[LaterChange]) -> Iterator[str]:
    """Yield per minibatch what plain's step does there, and which losses differ."""
    for name, minibatch in dict.fromkeys((r.checkpoint, r.minibatch) for r in rows):
        some = [
            r
            for r in rows
            if (r.checkpoint, r.minibatch, r.objective) == (name, minibatch, "entropy")
        ]
        plain = next(r for r in some if not r.against)
        gains = [r for r in some if r.against]
        tested = [r for r in gains if r.known]
        passing = sorted((r for r in tested if r.passes), key=lambda r: -r.expected)
        told = [f"{r.loss} by {_told(r)}" for r in passing[:_NAMED]]
        told += ["and others"] * (len(passing) > _NAMED)
        same = len(gains) - len(tested)
        yield (
            f"{name}, minibatch {minibatch}, over {plain.batches} updates: plain's "
            f"step changes entropy by {_told(plain)} nats per token on average; "
            f"{len(passing)} of {len(tested)} losses that differ from plain there keep "
            "more or less entropy at a false discovery rate of 5%"
            + (f": {', '.join(told)}" if told else "")
            + (f"; {same} equal plain" if same else "")
            + "."
        )


def _told(row: LaterChange) -> str:
    return interval_of(row, "expected")
