"""A training that learns answers in minutes on a laptop."""

from entrometer.training.config import ImitationConfig, TrainConfig


def workbench() -> TrainConfig:
    """Return a config with which the tiny policy learns to sort digits.

    Imitation ends with a policy that knows both orders and not which one is asked for;
    Dr-GRPO teaches that, and entropy collapses while it does.
    """
    return TrainConfig(
        policy="tiny",
        task="order",
        level="mixed",
        problems=8192,
        adapter=None,
        imitation=ImitationConfig(steps=400, batch=128, learning_rate=2e-3, warmup=50),
        steps=140,
        save_every=20,
        prompts=32,
        responses=8,
        micro_batch=256,
        learning_rate=3e-4,
        betas=(0.9, 0.99),
        max_tokens=6,
    )
