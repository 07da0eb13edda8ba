"""A training that continues from a checkpoint under another loss, in plain steps."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from entrometer import passes
from entrometer.estimators import Responses, entropy, entropy_statistics
from entrometer.experiments.update import ascent_of, make_step
from entrometer.experiments.update_batch import sampled_batch
from entrometer.interventions import intervention
from entrometer.policy import Checkpoint, load_checkpoint, sample
from entrometer.runs import Rollouts
from entrometer.tasks import task
from entrometer.tasks.registry import Split


@dataclass(frozen=True)
class Continuation:
    """How a training continues: on which task, with how large batches."""

    checkpoint: str
    task: str
    level: str | None
    max_tokens: int
    prompts: int
    responses: int
    problems: int
    evaluated: int  #: Prompts that entropy is measured on, one response each.
    base: str | None = None
    max_grad_norm: float = 1.0

    def entropies(self, loss: str, seed: int, steps: tuple[int, ...]) -> list[float]:
        """Return the entropy per token before, and after so many steps under a loss."""
        at = load_checkpoint(self.checkpoint, base=self.base)
        rng, chosen = np.random.default_rng([3, seed]), intervention(loss)
        found = [self.entropy(at)]
        for n in range(1, max(steps) + 1):
            drawn = rng.choice(self.problems, size=self.prompts, replace=False)
            rollouts = self.drawn(at, drawn, self.responses, seed=1000 * seed + n)
            batch = sampled_batch(rollouts)
            here = passes.forward(at.policy, rollouts)
            surplus = None
            if "concentration" in chosen.remedy.needs:
                surplus = passes.concentration(at.policy, rollouts).surplus
            tables = batch.tables(here, here.S, concentration=surplus, seed=n)
            ascent = ascent_of(at.policy, batch.treated(chosen, tables))
            made = make_step(at, ascent, max_grad_norm=self.max_grad_norm)
            with torch.no_grad():
                for name, p in at.policy.trained().items():
                    p.add_(made.update.direction[name], alpha=at.learning_rate)
            at = replace(at, state=made.state)
            if n in steps:
                found.append(self.entropy(at))
        return found

    def drawn(
        self, at: Checkpoint, problems: np.ndarray, responses: int, *, seed: int
    ) -> Rollouts:
        """Return responses of the policy to some problems, with their rewards."""
        judge = task(self.task, **({"level": self.level} if self.level else {}))
        every = judge.problems(Split.TRAIN, self.problems)
        ids = [
            at.policy.tokenizer(judge.prompt(every[i]))["input_ids"] for i in problems
        ]
        rollouts = sample(
            at.policy,
            ids,
            prompt_ids=problems.tolist(),
            responses_per_prompt=responses,
            max_tokens=self.max_tokens,
            seed=seed,
        )
        asked = [every[i] for i in np.repeat(problems, responses)]
        rewards = [
            judge.score(problem, text).answer
            for problem, text in zip(asked, rollouts.text, strict=True)
        ]
        return replace(rollouts, reward=np.array(rewards))

    def entropy(self, at: Checkpoint) -> float:
        """Return the entropy per token of fresh responses, with seeds of its own."""
        # The same prompts and random numbers whatever the policy: differences between
        # losses have less noise than the entropies themselves.
        rng = np.random.default_rng(9)
        problems = rng.integers(self.problems, size=self.evaluated)
        rollouts = self.drawn(at, problems, 1, seed=77)
        responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
        H = passes.forward(at.policy, rollouts).H
        return entropy(entropy_statistics(responses, H)).value
