"""Responses as requests: drawn from a policy, or recorded by a training."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from entrometer.engine.group import from_leader
from entrometer.errors import InvalidValue
from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Subject,
    Worker,
)
from entrometer.experiments.update_batch import (
    Batch,
    minibatch_rows,
    recorded_batch,
    recorded_tables,
    sampled_batch,
)
from entrometer.interventions import PLAIN
from entrometer.passes.forward import forward
from entrometer.policy import Policy, VllmServer, eos_tokens, sample
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.runs import (
    Rollouts,
    read_rollouts,
    read_update,
    response_seeds,
    write_rollouts,
)
from entrometer.runs.columns import read_columns
from entrometer.runs.parquet import list_values
from entrometer.tasks import Problem, Task, task, tool_of
from entrometer.tasks.own import Own
from entrometer.tasks.registry import Split
from entrometer.tasks.tool import refuse_tool


class _Grouped(Responses):
    @property
    @abstractmethod
    def group(self) -> np.ndarray:
        """Prompt group of each response."""

    @property
    def count(self) -> int:
        """Number of responses."""
        return self.group.size

    @property
    def prompts(self) -> int:
        """Number of prompt groups."""
        return np.unique(self.group).size


@dataclass(frozen=True, kw_only=True)
class Draw(Request, _Grouped):
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
        policy = worker.policy(self.subject)
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
        scored = replace(rollouts, reward=np.array(rewards, float), sampler=sampler)
        write_rollouts(self.path(worker.store), scored)


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


@dataclass(frozen=True, kw_only=True)
class Recorded(_Grouped):
    """An update batch that a training recorded."""

    path: str = field(metadata=NOT_IN_KEY)
    sha256: str
    intervention: str = ""
    """Loss of the training with all its settings; empty for plain Dr-GRPO."""
    code: str = ""
    """Content key of the intervention's code if a user wrote it."""

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response; the file is opened once."""
        return _recorded(self.path, self.sha256)[0]

    @property
    def longest(self) -> int:
        """Length limit of a response in the training, in tokens."""
        return _recorded(self.path, self.sha256)[1]

    @property
    def assumed(self) -> str:
        """Loss that is assumed, because the file lacks its tokens' weights; else ""."""
        has_weights = _recorded(self.path, self.sha256)[2]
        return "" if has_weights else self.intervention or PLAIN

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the training recorded."""
        return _recorded(self.path, self.sha256)[3]

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of the file's responses."""
        return list_values(self.path, "response_tokens")


@dataclass(frozen=True, kw_only=True)
class Minibatch(_Grouped):
    """Part `part` (from 1) of `parts` of an update batch, split by prompt group."""

    batch: Draw | Recorded
    part: int
    parts: int

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response of the part."""
        groups = self.batch.group
        return groups[minibatch_rows(groups, self.part, self.parts)]  # type: ignore[no-any-return]

    @property
    def longest(self) -> int:
        """Length limit of the batch's responses, in tokens."""
        return self.batch.longest

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the batch has."""
        return self.batch.log_probs

    def response_tokens(self, store: Path) -> int:
        """Return about how many tokens the part has: an equal share of the batch."""
        return round(self.batch.response_tokens(store) / self.parts)

    @property
    def reference(self) -> Responses:
        """The same minibatch, with its batch replaced by the batch's reference."""
        batch: Any = self.batch.reference
        return replace(self, batch=batch)


@dataclass(frozen=True, kw_only=True)
class Reweighted(_Grouped):
    """A recorded batch of a later policy, with weights as if this policy sampled it."""

    batch: Recorded
    here: Request
    """Table with S of its tokens under this policy."""

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response."""
        return self.batch.group

    @property
    def longest(self) -> int:
        """Length limit of a response in the training, in tokens."""
        return self.batch.longest

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the batch has."""
        return self.batch.log_probs

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of the file's responses."""
        return self.batch.response_tokens(store)

    def read(self, store: Path) -> Batch:
        """Return the batch with its weights."""
        update = read_update(self.batch.path)
        batch = recorded_batch(update, self.batch.intervention or PLAIN)
        ends = np.cumsum(batch.rollouts.length)[:-1]
        S = np.split(read_columns(self.here.path(store))["S"].astype(np.float64), ends)
        # Against the policy that sampled, from which the update's may have moved.
        log_weight = [
            x.sum() - old.astype(np.float64).sum()
            for x, old in zip(S, update.of_policy("S_old"), strict=True)
        ]
        return batch.reweighted(np.array(log_weight))


Source = Draw | Recorded | Minibatch | Reweighted
"""Where an update batch comes from."""


@runtime_checkable
class InStore(Protocol):
    """Responses whose rollouts are in a store."""

    def path(self, store: Path) -> Path:
        """Return the path of the rollouts."""


def read_draws(draws: Sequence[InStore], store: Path) -> Rollouts:
    """Return the rollouts of some draws as one batch, in their order."""
    return Rollouts.concatenate([read_rollouts(draw.path(store)) for draw in draws])


def read_batch(batch: Responses, store: Path) -> Batch:
    """Return an update batch with its token weights, from its file or the store."""
    if isinstance(batch, Minibatch):
        return read_batch(batch.batch, store).minibatch(batch.part, batch.parts)
    if isinstance(batch, Reweighted):
        return batch.read(store)
    if isinstance(batch, Draw | DrawnResponses):
        return sampled_batch(read_rollouts(batch.path(store)))
    assert isinstance(batch, Recorded), batch
    return recorded_batch(read_update(batch.path), batch.intervention or PLAIN)


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


@cache
def _recorded(path: str, sha256: str) -> tuple[np.ndarray, int, bool, frozenset[str]]:
    # The hash is an argument so that a file that was replaced is read again.
    batch = read_update(path)
    limit, has_weights = batch.settings.max_tokens, batch.alpha is not None
    return batch.group, limit, has_weights, recorded_tables(batch)
