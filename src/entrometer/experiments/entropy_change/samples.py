"""The responses of an evaluation batch, as text with their figures."""

from collections.abc import Iterator

from entrometer.experiments.entropy_change.tables import Evaluated
from entrometer.runs.tables.measure import Sample


def samples(batch: Evaluated) -> Iterator[Sample]:
    """A row a response."""
    r, T = batch.responses, batch.responses.length
    H, S = r.total(batch.here.H) / T, r.total(batch.here.S) / T
    for i, text in enumerate(batch.rollouts.text):
        yield Sample(
            checkpoint=batch.point.name,
            prompt=int(r.prompt[i]),
            prompt_text=batch.prompt_texts.get(int(r.prompt[i]), ""),
            response_text=text,
            tokens=int(T[i]),
            entropy=float(H[i]),
            surprisal=-float(S[i]),
            reward=float(batch.rollouts.reward[i]),
        )
