"""The reference run, and its twin of two minutes."""

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
    """The same with the tiny policy, every parameter trained, in minutes."""
    return TrainConfig(
        policy="tiny",
        task="arithmetic",
        level="tiny",
        adapter=None,
        imitation=ImitationConfig(steps=200, batch=64, learning_rate=3e-3, warmup=20),
        steps=16,
        save_every=4,
        prompts=8,
        responses=8,
        micro_batch=32,
        learning_rate=1e-4,
        max_tokens=32,
        predict_every=4,
    )
