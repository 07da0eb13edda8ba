"""A training run from its config: imitation, then Dr-GRPO, resumed if it stopped."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from entrometer.errors import InvalidValue
from entrometer.interventions import intervention
from entrometer.policy import Policy, add_adapter, load_policy
from entrometer.runs import IncompleteDirectory, checkpoints, hold, verify
from entrometer.runs.atomic import naming_full_disk
from entrometer.runs.settings import as_json, difference, sealed_settings
from entrometer.tasks import (
    Problem,
    Score,
    Split,
    Task,
    TaskWithTool,
    task,
    tool_of,
)
from entrometer.tasks.registry import problems_key
from entrometer.training.config import TrainConfig, as_saved, read_config, save_config
from entrometer.training.imitation import imitate
from entrometer.training.instruments import Instrument
from entrometer.training.probes import (
    EffectiveSampleSize,
    Entropy,
    Forecast,
    NoiseScale,
    PredictedChange,
)
from entrometer.training.processes import (
    deepspeed,
    fsdp,
    processes,
    sharded,
    shared_arguments,
)
from entrometer.training.recorder import Recorder
from entrometer.training.sampling import OwnRollouts
from entrometer.training.trackers import Progress, ShowProgress, trackers, without_bars
from entrometer.training.trainable import (
    needs_lookahead,
    require_lookahead_supported,
    trainable,
)
from entrometer.training.trainer import Trainer

RewardFunction = Callable[..., list[float]]


def train(config: TrainConfig, run: Path, *, progress: Progress | None = None) -> None:
    """Train, or resume the training in `run` with the same config or more steps.

    Finished imitation is reused, and Dr-GRPO resumes from the newest complete
    checkpoint. A resumed run has the same bits as one that was never stopped.
    """
    if (run / "config.json").is_file():
        _require_same(read_config(run), as_saved(config, run), run)
    if config.predict_every and sharded():
        raise InvalidValue(
            "expected predict_every=0 for a sharded model (FSDP, DeepSpeed), got "
            f"{config.predict_every}; set it to 0, or train with data parallelism"
        )
    trackers(config.report_to)
    intervention = trainable(config.intervention)
    if needs_lookahead(intervention, config.micro_batch):
        require_lookahead_supported(intervention, fsdp=fsdp(), deepspeed=deepspeed())
    chosen = task(config.task, **config.task_settings())
    if "S_engine" in intervention.remedy.needs and isinstance(chosen, TaskWithTool):
        raise InvalidValue(
            "expected an intervention that reads no log-probs of an engine for the "
            f"task {config.task!r}, whose tool writes a part of the responses, got "
            f"{config.intervention!r}; take another one, or another task"
        )
    if sharded() and isinstance(chosen, TaskWithTool):
        raise InvalidValue(
            "expected a task without a tool for a sharded model (FSDP, DeepSpeed), got "
            f"{config.task!r}, whose responses this package samples; train with data "
            "parallelism"
        )
    # Only the main process takes the lock: the others work on the same run with it.
    lock = hold(run) if processes().is_main_process else nullcontext()
    with lock, without_bars():
        _write_config(config, run, chosen)
        start = _start(config, chosen, run, progress)
        trainer = make_trainer(config, chosen, start, run, progress)
        trainer.train(resume_from_checkpoint=bool(checkpoints(run)))


def _require_same(saved: TrainConfig, config: TrainConfig, run: Path) -> None:
    longer = replace(saved, steps=max(saved.steps, config.steps))
    changed = difference(as_json(asdict(longer)), as_json(asdict(config)))
    if changed is not None:
        raise InvalidValue(
            f"expected a new directory, got {run} with a run of another config: "
            f"{changed}; choose another name, or resume that run"
        )


def prolong(run: Path, additional_steps: int = 0) -> TrainConfig:
    """Return the config of a run, with more steps to take.

    A loss with a schedule goes by the share of all steps, so it warns: such a run is
    not the one that would have been longer from the start.
    """
    if additional_steps < 0:
        raise InvalidValue(
            f"expected additional steps from 0, got {additional_steps}; give more"
        )
    config = read_config(run)
    if additional_steps and intervention(config.intervention).remedy.scheduled:
        warnings.warn(
            f"{config.intervention} has a schedule over all steps: with "
            f"{additional_steps} more, it goes back to an earlier part of it",
            stacklevel=2,
        )
    return replace(config, steps=config.steps + additional_steps)


def _write_config(config: TrainConfig, run: Path, task: Task) -> None:
    problems = _problems_key(config, task)
    before = (sealed_settings(run) or {}).get("problems")
    if before is not None and before != problems:
        raise InvalidValue(
            f"{run}: expected the problems of the task {config.task!r} with which the "
            f"run started (key {before}), got others (key {problems}); restore them, "
            "or train in another directory"
        )
    processes().wait_for_everyone()
    if processes().is_main_process:
        run.mkdir(parents=True, exist_ok=True)
        with naming_full_disk(run):
            save_config(config, run, problems=problems)
    processes().wait_for_everyone()


def _problems_key(config: TrainConfig, task: Task) -> str:
    problems = list(task.problems(Split.TRAIN, config.problems))
    if config.predict_every:
        problems += task.problems(Split.TEST, config.predict_prompts)
    return problems_key(task, problems)


def _start(
    config: TrainConfig, task: Task, run: Path, progress: Progress | None
) -> Policy:
    directory = run / "imitation"
    if config.imitation.steps:
        try:
            verify(directory)
        except IncompleteDirectory:
            policy = _fresh(config)
            problems = list(task.problems(Split.TRAIN, config.problems))
            imitate(policy, task, problems, config, directory, progress)
        return load_policy(directory, base=config.policy)
    return _fresh(config)


def _fresh(config: TrainConfig) -> Policy:
    policy, adapter = load_policy(config.policy), config.adapter
    if adapter is None:
        return policy
    return add_adapter(policy, **asdict(adapter), seed=config.seed)


def prompt_table(task: Task, problems: Sequence[Problem]) -> Any:
    """Return TRL's training set: per problem its prompt and its index."""
    prompts = [task.prompt(problem) for problem in problems]
    return Dataset.from_dict({"prompt": prompts, "problem": range(len(problems))})


def reward_functions(
    task: Task, problems: Sequence[Problem]
) -> tuple[RewardFunction, RewardFunction]:
    """Return the rewards of the verified answer and of the format, as TRL calls them.

    TRL passes the columns of `prompt_table` by name, and logs each reward under the
    name of its function.
    """

    # TRL calls both functions on the same responses: verify each response once.
    @lru_cache(maxsize=1 << 16)
    def score(problem: int, response: str) -> Score:
        return task.score(problems[problem], response)

    def part(name: str) -> RewardFunction:
        def reward(
            *, completions: list[str], problem: list[int], **_: Any
        ) -> list[float]:
            pairs = zip(problem, completions, strict=True)
            return [getattr(score(i, response), name) for i, response in pairs]

        reward.__name__ = name
        return reward

    return part("answer"), part("format")


def accumulation_steps(
    *, prompts: int, responses: int, micro_batch: int, processes: int
) -> int:
    """Return the number of micro-batches per process and update."""
    if micro_batch % responses:
        raise InvalidValue(
            f"expected micro-batches of complete groups of {responses} responses, got "
            f"micro_batch={micro_batch}; make it a multiple of {responses}"
        )
    total, each = prompts * responses, micro_batch * processes
    if total % each:
        raise InvalidValue(
            f"expected an update of {prompts} x {responses} = {total} responses to be "
            f"a multiple of micro_batch x processes = {micro_batch} x {processes} = "
            f"{each}; change prompts or micro_batch"
        )
    return total // each


def make_trainer(
    config: TrainConfig,
    task: Task,
    policy: Policy,
    run: Path,
    progress: Progress | None = None,
) -> Trainer:
    """Return the trainer of a run, with its instruments."""
    problems = task.problems(Split.TRAIN, config.problems)
    tool = tool_of(task, problems)
    needs = trainable(config.intervention).remedy.needs
    own = OwnRollouts(tool, keep_logprobs="S_engine" in needs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
        trainer = Trainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=_arguments(config, run),
            train_dataset=prompt_table(task, problems),
            reward_funcs=list(reward_functions(task, problems)),
            # Otherwise TRL samples.
            rollout_func=own if tool is not None or own.keep_logprobs else None,
            instruments=_instruments(config, task, policy),
            base=config.policy,
            intervention=config.intervention,
        )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ShowProgress("Dr-GRPO", progress))
    return trainer


def _instruments(config: TrainConfig, task: Task, policy: Policy) -> list[Instrument]:
    instruments: list[Instrument] = [
        # `train` has refused a directory with another training in it.
        Recorder(overwrite=True),
        Entropy(),
        EffectiveSampleSize(),
        Forecast(),
    ]
    if config.prompts * config.responses > config.micro_batch and not sharded():
        # The noise scale compares gradients of two batch sizes, on complete gradients.
        instruments.append(NoiseScale())
    if config.predict_every:
        held_out = task.problems(Split.TEST, config.predict_prompts)
        tokens = [policy.tokenizer(task.prompt(p))["input_ids"] for p in held_out]
        instruments.append(
            PredictedChange(
                every=config.predict_every,
                prompts=tokens,
                seed=config.seed,
                tool=tool_of(task, held_out),
            )
        )
    return instruments


def _arguments(config: TrainConfig, run: Path) -> Any:
    accumulation = accumulation_steps(
        prompts=config.prompts,
        responses=config.responses,
        micro_batch=config.micro_batch,
        processes=processes().num_processes,
    )
    return GRPOConfig(
        output_dir=str(run),
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        max_steps=config.steps,
        num_generations=config.responses,
        per_device_train_batch_size=config.micro_batch,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation * config.window,
        num_iterations=config.iterations,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant",
        adam_beta1=config.betas[0],
        adam_beta2=config.betas[1],
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        temperature=config.temperature,
        max_completion_length=config.max_tokens,
        reward_weights=[1.0, config.format_weight],
        save_steps=config.save_every,
        report_to=trackers(config.report_to),
        # Trackers show this name: it should not contain the machine's folders.
        run_name=run.resolve().name,
        **shared_arguments(config.seed),
    )
