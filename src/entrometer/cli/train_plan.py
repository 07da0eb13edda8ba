"""What a training would do, and roughly how long it would take."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from entrometer.errors import EntrometerError
from entrometer.estimators import GradientWeights
from entrometer.passes import vjp
from entrometer.policy import Policy, load_policy, sample
from entrometer.runs import Rollouts, Sampler, newest_complete
from entrometer.tasks import Problem, Split, Task, task, tool_of
from entrometer.text import clock, plain, print_json
from entrometer.training.config import TrainConfig
from entrometer.training.trainable import needs_lookahead, trainable

_FEW, _MORE = 4, 16


def dry_run(config: TrainConfig, run: Path | None, *, as_json: bool) -> None:
    """Print the steps that are left, and their time, estimated from a few responses."""
    imitation, done = config.imitation.steps, 0
    if run is not None and (run / "config.json").is_file():
        newest, _ = newest_complete(run)
        done = 0 if newest is None else int(newest.name.partition("-")[2])
        imitation = 0 if (run / "imitation" / "manifest.json").is_file() else imitation
    left = max(0, config.steps - done)
    responses = left * config.prompts * config.responses // config.iterations
    try:
        time_left = _seconds(config, imitation, left)
        told = f"roughly {clock(time_left)}, from sampling a few responses"
    except EntrometerError as error:
        time_left, told = math.nan, f"not known: {error}"
    if as_json:
        print_json(
            {
                "imitation_steps": imitation,
                "steps": left,
                "responses": responses,
                "seconds": time_left,
            }
        )
        return
    print(
        f"imitation: {imitation} updates of {config.imitation.batch} demonstrations\n"
        f"Dr-GRPO: {left} updates of {config.prompts} prompts x {config.responses} "
        f"responses; {responses} responses to sample, at most "
        f"{responses * config.max_tokens} tokens\n"
        f"intervention: {plain(config.intervention)}\n"
        f"checkpoints: one every {config.save_every} updates\n" + plain(f"time: {told}")
    )


def _seconds(config: TrainConfig, imitation: int, steps: int) -> float:
    loading, policy = seconds(lambda: load_policy(config.policy))
    judge = task(config.task, **config.task_settings())
    problems = judge.problems(Split.TRAIN, _MORE)
    drawn = _demonstrations(policy, judge, problems, config)

    def sampling(count: int) -> object:
        prompts = drawn.prompt_tokens[:count]
        return sample(
            policy,
            [p.tolist() for p in prompts],
            prompt_ids=range(len(prompts)),
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            seed=0,
            tool=tool_of(judge, problems),
        )

    def updating(count: int) -> object:
        part = drawn.select(np.arange(min(count, drawn.count)))
        ones = np.ones(part.tokens)
        return vjp(policy, part, GradientWeights(S=ones, H=np.zeros_like(ones)))

    for warm in (sampling, updating):
        warm(1)
    draw = Line.through(sampling, (_FEW, _MORE))
    update = Line.through(updating, (_FEW, _MORE))
    batch = config.prompts * config.responses
    a_step = draw.at(batch) / config.iterations + update.at(batch)
    if config.predict_every:
        # Its slope along one direction is about two ways back.
        a_step += (
            draw.at(config.predict_prompts) + 2 * update.at(config.predict_prompts)
        ) / config.predict_every
    if needs_lookahead(trainable(config.intervention), config.micro_batch):
        # The way there is about half of the way back.
        a_step += update.at(batch) / 3
    return loading + imitation * update.at(config.imitation.batch) + steps * a_step


def _demonstrations(
    policy: Policy, judge: Task, problems: Sequence[Problem], config: TrainConfig
) -> Rollouts:
    """Right responses to some problems: as long as those that will be trained on."""
    random = Random(config.seed)
    tokens = [
        tuple(
            np.array(policy.tokenizer(text)["input_ids"])
            for text in (judge.prompt(p), judge.demonstration(p, random))
        )
        for p in problems
    ]
    return Rollouts(
        prompt=np.arange(len(tokens)),
        prompt_tokens=tuple(prompt for prompt, _ in tokens),
        response_tokens=tuple(r[: config.max_tokens] for _, r in tokens),
        seed=np.zeros(len(tokens), np.int64),
        text=("",) * len(tokens),
        reward=np.full(len(tokens), np.nan),
        sampler=Sampler(
            name="demonstrations",
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            model="",
            version="",
        ),
    )


class Line(NamedTuple):
    r"""Seconds that n responses take, $a + bn$."""

    fixed: float
    each: float

    def at(self, count: int) -> float:
        """Return the seconds that `count` responses take."""
        return self.fixed + self.each * count

    @classmethod
    def through(cls, work: Callable[[int], object], counts: tuple[int, int]) -> "Line":
        """Time `work` at two counts; return the line through them, no part below 0."""
        few, more = counts
        at_few, _ = seconds(lambda: work(few))
        if more <= few:
            return cls(0.0, at_few / few)
        at_more, _ = seconds(lambda: work(more))
        each = max(0.0, (at_more - at_few) / (more - few))
        # All of it to the pieces where a fixed part would come out negative.
        if at_few < each * few:
            return cls(0.0, at_more / more)
        return cls(at_few - each * few, each)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Run `work`; return the seconds it took and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
