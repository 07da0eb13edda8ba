"""The order of prompts, as the seed and the epoch alone decide it."""

from trl.trainer.utils import RepeatSampler


class EpochSampler(RepeatSampler):  # type: ignore[misc]
    """TRL's sampler, in an order that the seed and the epoch alone decide."""

    def set_epoch(self, epoch: int) -> None:
        """Begin the order of an epoch, in whatever process."""
        if self.shuffle:
            self.generator.manual_seed(self.seed + epoch)
