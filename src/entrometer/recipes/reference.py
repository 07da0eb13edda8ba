"""The reference run of the studies, and a version of it that takes a minute."""

from entrometer.training.config import AdapterConfig, ImitationConfig, TrainConfig


def reference() -> TrainConfig:
    """Return the config of the studies' run: SmolLM2-135M learns chains of sums.

    The adapter is small enough to commit a checkpoint with weights and both moments;
    imitation ends while the policy still explores.
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
    """Return a config that trains all parameters of the tiny policy in a minute.

    Imitation ends when half of the responses have the format, and reward teaches the
    other half. So small a policy does not learn sums; see `docs/training.md`.
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
