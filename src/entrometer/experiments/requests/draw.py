"""Responses drawn from a policy, by this package or by a vLLM server."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from entrometer.engine.group import from_leader
from entrometer.errors import InvalidValue
from entrometer.experiments.requests.grouped import GroupedResponses
from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Subject,
    Worker,
)
from entrometer.passes.forward import forward
from entrometer.policy import Policy, VllmServer, eos_tokens, sample
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.runs import (
    Rollouts,
    read_rollouts,
    response_seeds,
    write_rollouts,
)
from entrometer.runs.parquet import list_values
from entrometer.tasks import Problem, Task, task, tool_of
from entrometer.tasks.own import Own
from entrometer.tasks.registry import Split
from entrometer.tasks.tool import refuse_tool


@dataclass(frozen=True, kw_only=True)
class Draw(Request, GroupedResponses):
    """Responses to some problems of a task, with their rewards: a rollout table."""

    kind: ClassVar[str] = "rollouts"

    task: str
    settings: tuple[tuple[str, str], ...]  #: Arguments of the task, such as its level.
    split: str
    problems: tuple[int, ...]
    """Index of the problem of each response."""
    asked: str
    """Content key of the prompts and reference answers."""
    seeds: tuple[int, ...]
    """Seed of each response."""
    temperature: float
    max_tokens: int
    format_weight: float
    """Weight of the format in the reward; the answer has weight 1."""
    code: str = ""
    """Content key of the task's code if a user wrote it: it decides the rewards."""
    sampled_by: str = "policy"
    """`policy` for this package's own sampling; `vllm`, whose numerics differ; or
    `precision` for this package's sampling in another precision than the measured
    policy's, with the log-probs of that precision."""
    server: str = field(default="", metadata=NOT_IN_KEY)
    """Address of the vLLM server; empty for this package's own sampling."""

    # Sampling goes token by token.
    forwards = 2.0

    @property
    def batches(self) -> Sequence[Responses]:
        """The responses themselves."""
        return [self]

    @property
    def group(self) -> np.ndarray:
        """Problem of each response."""
        return np.array(self.problems)

    @property
    def longest(self) -> int:
        """Length limit of a response, in tokens."""
        return self.max_tokens

    @property
    def log_probs(self) -> frozenset[str]:
        """`S_engine` if an inference engine draws the responses; else nothing."""
        return frozenset({"S_engine"} if self.sampled_by != "policy" else ())

    @property
    def reference(self) -> "DrawnResponses":
        """File name and sizes of the draw, without its problems and seeds."""
        return DrawnResponses(
            file=self.path(Path()).name,
            count=self.count,
            prompts=self.prompts,
            longest=self.longest,
        )

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens that were drawn."""
        return list_values(self.path(store), "response_tokens")

    def read(self, store: Path) -> Rollouts:
        """Return the drawn responses with their rewards."""
        return read_rollouts(self.path(store))

    def of(self, problems: Sequence[int]) -> "Draw":
        """Return a draw of other problems of the same task, to estimate its cost."""
        seeds = response_seeds(0, list(problems))
        return replace(self, problems=tuple(problems), seeds=tuple(seeds.tolist()))

    def run(self, worker: Worker) -> None:
        """Sample the responses, and score them."""
        rollouts = self.sampled(worker.policy(self.subject))
        write_rollouts(self.path(worker.store), rollouts)

    def sampled(self, policy: Policy) -> Rollouts:
        """Return responses of a policy to the problems, with their rewards."""
        judge = task(self.task, **dict(self.settings))
        every = judge.problems(Split(self.split), max(self.problems) + 1)
        problems = [every[i] for i in self.problems]
        # Tokenized here: the plan loads no tokenizer.
        prompts = [_token_ids(judge, p, policy.tokenizer) for p in problems]
        settings: dict[str, Any] = {
            "prompt_ids": self.problems,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": np.array(self.seeds),
        }
        tool = tool_of(judge, every)
        if self.server:
            refuse_tool(judge, self.server)
            rollouts = _from_server(
                self.server, self.subject, policy, prompts, settings
            )
        else:
            keep = self.sampled_by != "policy"
            rollouts = sample(
                policy, prompts, keep_logprobs=keep, tool=tool, **settings
            )
        if isinstance(judge, Own):
            texts = [
                policy.tokenizer.decode(p, skip_special_tokens=True) for p in prompts
            ]
            rewards = judge.rewards(problems, texts, rollouts.text)
        else:
            pairs = zip(problems, rollouts.text, strict=True)
            scores = [judge.score(problem, text) for problem, text in pairs]
            rewards = [s.answer + self.format_weight * s.format for s in scores]
        # The content key, not the path: the directory may be moved.
        sampler = replace(rollouts.sampler, model=self.subject.weights)
        return replace(rollouts, reward=np.array(rewards, float), sampler=sampler)


@dataclass(frozen=True, kw_only=True)
class DrawnResponses(Responses):
    """A draw in the store, known by its file, without its problems and seeds."""

    file: str
    # With defaults, because a field without one leaves the property abstract.
    count: int = 0
    prompts: int = 0
    longest: int = 0

    def path(self, store: Path) -> Path:
        """Return the path of the rollouts in a store."""
        return store / self.file

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens that were drawn."""
        return list_values(self.path(store), "response_tokens")


@runtime_checkable
class InStore(Protocol):
    """Responses whose rollouts are in a store."""

    def path(self, store: Path) -> Path:
        """Return the path of the rollouts."""


def read_draws(draws: Sequence[InStore], store: Path) -> Rollouts:
    """Return the rollouts of some draws as one batch, in their order."""
    return Rollouts.concatenate([read_rollouts(draw.path(store)) for draw in draws])


def _token_ids(judge: Task, problem: Problem, tokenizer: Any) -> list[int]:
    if isinstance(judge, Own):
        return judge.token_ids(problem, tokenizer)
    ids: list[int] = tokenizer(judge.prompt(problem))["input_ids"]
    return ids


# Bfloat16 in the server differs by about 0.02 nats per token from float32 here, another
# model by more than 1.
_SAME_POLICY = 0.25


def _from_server(
    address: str,
    subject: Subject,
    policy: Policy,
    prompts: list[list[int]],
    settings: dict[str, Any],
) -> Rollouts:
    server = VllmServer(url=address, api_key=os.environ.get("VLLM_API_KEY"))
    if (Path(subject.path) / ADAPTER_CONFIG).is_file():
        # Named by content: adapters of several checkpoints are served side by side.
        model = f"entrometer-{subject.weights[:24]}"
        server.load_adapter(model, Path(subject.path))
    else:
        model = server.served_model()
    eos = eos_tokens(policy)
    # Two draws differ, and the members of a group need the same one.
    rollouts = from_leader(
        lambda: server.sample(prompts, model=model, eos=eos, **settings)
    )
    # A server does not say which weights it serves, but its log-probs do.
    few = rollouts.select(slice(4))
    ours = forward(policy, few).S
    apart = float(np.abs(ours - np.concatenate(few.engine_logprobs or ())).mean())
    if not apart <= _SAME_POLICY:
        raise InvalidValue(
            f"expected {address} to sample from {subject.path}, got log-probs that "
            f"differ by {apart:.2g} nats per token on average; serve this checkpoint's "
            "model, and with --logprobs-mode processed_logprobs unless the temperature "
            "is 1"
        )
    return rollouts
