"""The interventions that the studies of losses compare.

The package has more by now. The list is fixed, so that a study that is run again
measures what its tables and its text are about.
"""

LOSSES = (
    *("adaptive-bonus", "ce-gppo", "cispo", "clip-b", "clip-cov", "clip-higher"),
    *("clip-v", "dr-grpo", "entrocraft", "entropy-bonus", "frontier", "grpo"),
    *("high-entropy", "kl-cov", "negative-reinforced", "positive-only", "sapo"),
    *("stare", "steer"),
)
"""Names in the order in which a comparison of all of them goes."""
