"""The shards of one checkpoint, drawn where they are missing and read where not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from entrometer.estimators import PromptSums
from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.draw import draw_shard
from entrometer.evaluation.results import shard_statistics
from entrometer.evaluation.shards import (
    Shard,
    measures_path,
    read_shard,
    rollouts_path,
    write_shard,
)
from entrometer.policy import Policy
from entrometer.runs import DamagedFile
from entrometer.tasks.registry import Problem, Task


@dataclass(frozen=True)
class CheckpointShards:
    """All that is kept of a checkpoint's evaluation."""

    step: int
    """Optimizer steps behind the checkpoint."""

    checkpoint: Path
    """Its directory: a model or an adapter."""

    directory: Path
    """Where its shards are."""

    subject: str
    """What they are measured on: hashes of the evaluation and of the weights."""

    parts: tuple[tuple[Problem, ...], ...]
    """The problems of each shard."""

    altered: Mapping[str, str] = field(default_factory=dict)
    """Files that are not as they were sealed, and what is wrong with them."""

    def sums(
        self,
        task: Task,
        config: EvaluationConfig,
        load: Callable[[], Policy],
        tell: Callable[[int, str], None],
    ) -> PromptSums:
        """Statistics of all parts, of which only the missing ones are computed."""
        self.directory.mkdir(exist_ok=True)
        policy = None
        sums = []
        for number, part in enumerate(self.parts):
            shard = self._finished(number, tell)
            if shard is None:
                policy = policy or load()
                shard = draw_shard(policy, task, part, config)
                write_shard(self.directory, number, shard, self._subject(number))
            sums.append(shard_statistics(shard))
            place = f"{self.directory.name}, part {number + 1} of {len(self.parts)}"
            tell(shard.rollouts.count, place)
        return PromptSums.merge(sums)

    def read(self) -> Iterator[tuple[tuple[Problem, ...], Shard]]:
        """The problems and the shard of each part, once all of them are there."""
        for number, part in enumerate(self.parts):
            shard = read_shard(self.directory, number, self._subject(number))
            if shard is None:
                raise DamagedFile(
                    f"expected part {number} in {self.directory}, got none; evaluate "
                    "again"
                )
            yield part, shard

    def _subject(self, number: int) -> str:
        return f"part {number} of {self.subject}"

    def _finished(self, number: int, tell: Callable[[int, str], None]) -> Shard | None:
        for path in (rollouts_path, measures_path):
            name = f"{self.directory.name}/{path(self.directory, number).name}"
            if name in self.altered:
                tell(0, f"computed again: {self.altered[name]}")
                return None
        try:
            return read_shard(self.directory, number, self._subject(number))
        except DamagedFile as error:
            tell(0, f"computed again: {error}")
            return None
