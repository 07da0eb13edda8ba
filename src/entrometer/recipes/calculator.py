"""A training in which a policy uses a tool."""

from entrometer.training.config import ImitationConfig, TrainConfig


def calculator() -> TrainConfig:
    """Return a config with which the tiny policy learns to call a calculator.

    Imitation teaches the form of a call; Dr-GRPO teaches what to call it with.
    """
    return TrainConfig(
        policy="tiny",
        task="calculator",
        adapter=None,
        imitation=ImitationConfig(steps=80, batch=64, learning_rate=2e-3, warmup=20),
        steps=40,
        save_every=10,
        prompts=16,
        responses=8,
        micro_batch=128,
        learning_rate=3e-4,
        betas=(0.9, 0.99),
        max_tokens=48,
    )
