"""A measurement that is small enough to be drawn in a moment."""

from benchmarks.report.synthetic import Shape
from entrometer.runs.tables.measure import Sample

SMALL = Shape(checkpoints=("checkpoint-8",), updates=("recorded",), etas=(1e-6, 3e-4))
SUMMARY = {"title": "A title", "sentences": ["One.", "Two."], "warnings": ["Beware."]}


def sample(text: str, *, prompt: int = 0, checkpoint: str = "checkpoint-8") -> Sample:
    return Sample(
        checkpoint=checkpoint,
        prompt=prompt,
        prompt_text=f"problem {prompt}",
        response_text=text,
        tokens=3,
        entropy=0.4,
        surprisal=0.5,
        reward=1.0,
    )
