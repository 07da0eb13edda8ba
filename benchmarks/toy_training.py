"""A training run of seconds: the tiny policy learns to write digits."""

import hashlib
import multiprocessing
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from entrometer.runs import checkpoints
from entrometer.tasks import Problem, Score, Split, register
from entrometer.training.config import AdapterConfig, ImitationConfig, TrainConfig

# Windows of 4 updates, each gone over twice, over fewer problems than a run needs: cuts
# fall inside windows, inside their second round, and in later epochs.
CONFIG = TrainConfig(
    policy="tiny",
    task="digits",
    problems=12,
    adapter=AdapterConfig(rank=4),
    imitation=ImitationConfig(steps=0),
    steps=12,
    save_every=3,
    prompts=2,
    responses=4,
    micro_batch=4,
    window=4,
    iterations=2,
    learning_rate=1e-2,
    max_tokens=6,
)


@register("digits")
@dataclass(frozen=True)
class Digits:
    """Rewards digits, so that an untrained policy has something to gain."""

    name = "digits"

    def problems(self, split: Split, count: int | None = None) -> list[Problem]:
        return [Problem(i, f"{i}+{i}=", "") for i in range(count or 8)]

    def prompt(self, problem: Problem) -> str:
        return problem.question

    def demonstration(self, problem: Problem, random: Random) -> str:
        return str(random.randrange(10**6))

    def score(self, problem: Problem, response: str) -> Score:
        return Score(sum(c.isdigit() for c in response) / 8, 0.0)


def train_to(run: Path, steps: int, save_every: int) -> None:
    """Train, or go on, in this process."""
    import torch

    from entrometer.training import prolong, read_config, train

    torch.set_num_threads(1)
    if (run / "config.json").is_file():
        config = prolong(run, steps - read_config(run).steps)
    else:
        config = replace(CONFIG, steps=steps, save_every=save_every)
    train(config, run)


def process(run: Path, steps: int, save_every: int) -> BaseProcess:
    """The same in a process of its own, of a server that has torch loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["benchmarks.toy_training", "entrometer.training.run"]
    )
    return context.Process(target=train_to, args=(run, steps, save_every))


def run_to_end(run: Path, steps: int, save_every: int) -> None:
    """Train in a process of its own, and wait for it."""
    child = process(run, steps, save_every)
    child.start()
    child.join()
    assert child.exitcode == 0, f"training of {run} ended with {child.exitcode}"


def digests(run: Path) -> dict[str, str]:
    """The sha256 of the last weights and optimizer, and of every recorded batch."""
    _, last = checkpoints(run)[-1]
    paths = [last / "adapter_model.safetensors", last / "optimizer.pt"]
    paths += sorted((run / "updates").glob("step-*.parquet"))
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}
