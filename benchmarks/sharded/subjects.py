"""Checkpoints that are measured in shards, and the commands that do."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.architectures.families import small_model
from benchmarks.untrained_checkpoint import write_untrained_checkpoint
from entrometer.policy import load_policy
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.policy.tiny import VOCABULARY, tiny_tokenizer
from studies.collected import REFERENCE

# Few and short: what is compared is sums over processes, not samples.
_FEW = (
    *("--prompts", "8", "--batches", "2", "--updates", "sampled-1"),
    *("--update-prompts", "4", "--update-responses", "4", "--no-report"),
)
_OWN = {
    "measure": ("--curvature-prompts", "0", "--variance-prompts", "8"),
    "influence": ("--folds", "4"),
    "compare": (
        *("--folds", "4", "--minibatches", "1/1"),
        *("--interventions", "grpo", "clip-cov:rho=0.2"),
    ),
}

LARGE = ("--variance-prompts", "0")
"""Of a measurement: without rows of gradients, each of which is a vector."""

LEAST = (*LARGE, "--batches", "1")
"""Of the step alone, without gradients by fold, three vectors each."""


@dataclass(frozen=True)
class Subject:
    """A checkpoint, and the verbs that measure it in float64."""

    name: str
    make: Callable[[Path], Path]
    """Writes the checkpoint into a folder, and returns its path."""

    verbs: Sequence[str]
    settings: Sequence[str] = ()
    measure: Sequence[str] = ()
    """Further ones of that verb."""

    def command(self, checkpoint: Path, verb: str, precision: str) -> list[str]:
        """Return the arguments of one measurement."""
        own = self.measure if verb == "measure" else ()
        return command(checkpoint, verb, precision, (*self.settings, *own))


def command(
    checkpoint: Path, verb: str, precision: str, settings: Sequence[str]
) -> list[str]:
    """Return the arguments of one measurement, but for the run directory."""
    return [
        *(verb, str(checkpoint), "--precision", precision, "--device", "cpu"),
        *(*_FEW, *_OWN[verb], *settings),
    ]


def write_prompts(folder: Path) -> Path:
    """Write the prompts of `rewarded`, and return their file."""
    path = folder / "prompts.jsonl"
    lines = (json.dumps({"prompt": f"{i} + {i * i} ="}) for i in range(16))
    path.write_text("\n".join(lines) + "\n")
    return path


def rewarded(prompts: Path) -> tuple[str, ...]:
    """Settings for short responses to a file of prompts, with a reward of our own."""
    reward = "benchmarks.sharded.rewards:parity"
    own = ("--prompts-file", str(prompts), "--reward", reward)
    return (*own, "--problems", "16", "--max-tokens", "8")


def _mixture(folder: Path) -> Path:
    model = small_model("qwen3_moe", vocab_size=VOCABULARY)
    named = Precision("float32"), "mixture"
    policy = Policy(model, tiny_tokenizer(length=64), *named)
    write_untrained_checkpoint(policy, folder / "checkpoint-1")
    write_prompts(folder)
    return folder / "checkpoint-1"


def _smollm2(folder: Path) -> Path:
    write_untrained_checkpoint(load_policy("smollm2"), folder / "checkpoint-1")
    write_prompts(folder)
    return folder / "checkpoint-1"


def _reference(folder: Path) -> Path:
    write_prompts(folder)
    return REFERENCE / "checkpoint-8"


def subjects(folder: Path) -> list[Subject]:
    """A mixture of experts, SmolLM2 with an adapter, and SmolLM2 with all parameters.

    `folder` is where the checkpoints are written.
    """

    def own(name: str) -> tuple[str, ...]:
        return rewarded(folder / name / "prompts.jsonl")

    every = tuple(_OWN)
    adapted = (*own("smollm2-lora"), "--policy", "smollm2")
    return [
        Subject("mixture", _mixture, every, own("mixture")),
        Subject("smollm2-lora", _reference, every, adapted, LARGE),
        # Gradients by fold and removals of all parameters in float64 would not fit.
        Subject("smollm2", _smollm2, ("measure",), own("smollm2"), LARGE),
    ]
