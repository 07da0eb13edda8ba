"""The reference run, and its twin of a minute."""

from entrometer.training.config import AdapterConfig, ImitationConfig, TrainConfig


def reference() -> TrainConfig:
    """SmolLM2-135M learns chains of sums: the run that the studies are about.

    The adapter is small enough for a checkpoint, weights and both moments, to be
    committed; imitation ends where the policy still has something to explore.
    """
    return TrainConfig(
        policy="smollm2",
        task="arithmetic",
        level="easy",
        adapter=AdapterConfig(rank=8, alpha=16),
        imitation=ImitationConfig(steps=128, batch=16, learning_rate=1e-3),
        steps=64,
        save_every=8,
        prompts=8,
        responses=8,
        micro_batch=16,
        learning_rate=3e-4,
        max_tokens=64,
        predict_every=8,
    )


def tiny_twin() -> TrainConfig:
    """The tiny policy learns the format, every parameter trained, in a minute.

    Imitation ends when half of the responses have the format: the rest of it is what
    reward can teach so small a policy in that time. Sums it cannot; see
    `docs/training.md`.
    """
    return TrainConfig(
        policy="tiny",
        task="arithmetic",
        level="tiny",
        adapter=None,
        imitation=ImitationConfig(steps=16, batch=32, learning_rate=3e-3, warmup=4),
        steps=32,
        save_every=8,
        prompts=16,
        responses=8,
        micro_batch=32,
        learning_rate=2.5e-4,
        max_tokens=32,
        format_weight=0.5,
        predict_every=8,
    )
