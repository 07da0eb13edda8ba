"""Training of seconds: the tiny policy with a small adapter learns to write letters."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers.trainer_pt_utils import safe_globals

from entrometer import interventions
from entrometer.interventions import TokenTables, dr_grpo
from entrometer.policy import tiny_policy
from entrometer.tasks import Problem, Score, Split, register
from entrometer.training import ImitationConfig, Instrument, MicroBatch, TrainConfig

PROMPTS = [f"{a}{'+' * (a % 3)}{b}=" for a in range(8) for b in range(2)]

# Windows of 2 updates that are gone over twice, of 2 micro-batches of 2 groups each:
# updates 1 to 4 are made from one round of sampling, update 5 from the next.
GROUP, MICRO, ACCUMULATION, WINDOW, ROUNDS = 2, 4, 2, 2, 2
UPDATE = MICRO * ACCUMULATION
ARGUMENTS: dict[str, Any] = {
    "loss_type": "dr_grpo",
    "scale_rewards": "none",
    "beta": 0.0,
    "num_generations": GROUP,
    "per_device_train_batch_size": MICRO,
    "gradient_accumulation_steps": ACCUMULATION,
    "steps_per_generation": ACCUMULATION * WINDOW,
    "num_iterations": ROUNDS,
    "learning_rate": 3e-2,
    "lr_scheduler_type": "constant",
    "temperature": 0.7,
    "max_completion_length": 6,
    "reward_weights": [1.0, 0.5],
    "logging_steps": 1,
    "save_steps": 1,
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "bf16": False,
    "use_cpu": True,
    "gradient_checkpointing": False,
    "seed": 0,
}


def letters(completions: list[str], **_: object) -> list[float]:
    return [sum(c.islower() for c in completion) / 4 for completion in completions]


def capitals(completions: list[str], **_: object) -> list[float | None]:
    """Judges only what has no figure."""
    return [
        None if any(map(str.isdigit, completion)) else float(not completion.islower())
        for completion in completions
    ]


class Witness(Instrument):
    """Keeps what it is shown, and counts updates over restarts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.micros: list[MicroBatch] = []
        self.count = 0

    def attach(self, trainer: Any) -> None:
        self.calls.append(("attach", trainer.state.global_step))

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        self.calls.append(("micro_step", trainer.state.global_step + 1))
        self.micros.append(micro)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        self.calls.append(("update", step))
        self.count += 1
        return {"witness/count": float(self.count)}

    def updated(self, trainer: Any, step: int) -> Mapping[str, float]:
        self.calls.append(("updated", step))
        return {"witness/step": float(step)}

    def state(self) -> dict[str, Any]:
        return {"count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


@contextmanager
def quietly() -> Iterator[None]:
    """What trainers warn of is theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make_trainer(
    kind: Callable[..., Any],
    run: Path,
    steps: int,
    instruments: Sequence[Instrument] = (),
    *,
    lora_rank: int | None = 2,
    keywords: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    with quietly():
        from datasets import Dataset
        from trl import GRPOConfig

        policy = tiny_policy(lora_rank=lora_rank, lora_std=0.05)
        arguments = ARGUMENTS | {"output_dir": str(run), "max_steps": steps} | settings
        return kind(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=GRPOConfig(**arguments),
            train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
            reward_funcs=[letters, capitals],
            instruments=instruments,
            **(keywords or {}),
        )


def train(trainer: Any, **resume: Any) -> list[dict[str, float]]:
    """Train, and return what was logged of each step."""
    with quietly():
        trainer.train(**resume)
    return [log for log in trainer.state.log_history if "loss" in log]


def digests(run: Path, step: int) -> dict[str, str]:
    """Everything of a run that has to be the same to the bit after a restart."""
    checkpoint = run / f"checkpoint-{step}"
    names = (
        "adapter_model",
        "model",
        "optimizer.pt",
        "scheduler",
        "window",
        "instruments",
        "intervention",
    )
    paths = [p for p in checkpoint.iterdir() if p.name.startswith(names)]
    paths += (run / "updates").iterdir()
    found = {p.name: sha256(p.read_bytes()).hexdigest() for p in paths}
    for path in checkpoint.glob("rng_state*"):
        with safe_globals():
            state = torch.load(path, weights_only=True)
        # Python's generator is left out: beartype checks types in these tests, and
        # draws from it which entry of a list to look at.
        found[path.name] = str((state["cpu"].tolist(), state["numpy"]))
    return found


def _next(settings: dict[str, float], mean_entropy: float) -> dict[str, float]:
    return settings | {"weight": settings["weight"] + mean_entropy / 7}


@interventions.register("toy-lively", adapt=_next)
def lively(tables: TokenTables, *, weight: float = 0.5, bonus: float = 0.05) -> Tensor:
    """More weight where there is more entropy than on average, and a bonus for it."""
    share = tables.count * tables.length_limit / tables.mask.sum()
    more = 1 + weight * (tables.H.detach() > tables.mean_entropy)
    return more * dr_grpo(tables) - bonus * share * tables.H


@register("toy-letters")
@dataclass(frozen=True)
class Letters:
    """Right are small letters, well formed is a capital."""

    name: str = "toy-letters"
    level: str = "low"

    def problems(self, split: Split, count: int | None = None) -> Sequence[Problem]:
        return [Problem(i, f"{i}+{split.value}", str(i)) for i in range(count or 16)]

    def prompt(self, problem: Problem) -> str:
        return f"{problem.question}="

    def demonstration(self, problem: Problem, random: Random) -> str:
        return f"A{random.choice('bcd')}"

    def score(self, problem: Problem, response: str) -> Score:
        right = sum(c.islower() for c in response)
        return Score(right / 4, float(any(map(str.isupper, response))))


CONFIG = TrainConfig(
    policy="tiny",
    task="toy-letters",
    problems=8,
    imitation=ImitationConfig(steps=2, batch=4, warmup=1),
    steps=2,
    save_every=1,
    prompts=4,
    responses=2,
    micro_batch=2,
    window=1,
    learning_rate=1e-2,
    max_tokens=6,
    format_weight=0.5,
)
