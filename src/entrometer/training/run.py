"""A training run from its config: imitation, then Dr-GRPO, resumed where it stopped."""

import logging
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback
from trl import GRPOConfig

from entrometer.errors import InvalidValue
from entrometer.policy import Policy, add_adapter, load_policy
from entrometer.runs import (
    IncompleteDirectory,
    checkpoints,
    hold,
    newest_complete,
    verify,
)
from entrometer.runs.atomic import naming_full_disk
from entrometer.runs.settings import as_json, difference, sealed_settings
from entrometer.tasks import Split, Task, task
from entrometer.tasks.registry import problems_key
from entrometer.training.batching import accumulation_steps
from entrometer.training.config import TrainConfig, as_saved, read_config, save_config
from entrometer.training.imitation import imitate
from entrometer.training.instruments import Instrument
from entrometer.training.probes import (
    EffectiveSampleSize,
    Entropy,
    NoiseScale,
    PredictedChange,
)
from entrometer.training.processes import on_cpu, processes
from entrometer.training.progress import Progress, ShowProgress, without_bars
from entrometer.training.recorder import Recorder
from entrometer.training.rewards import prompt_table, reward_functions
from entrometer.training.sharding import deepspeed, fsdp, sharded
from entrometer.training.trackers import trackers
from entrometer.training.trainable import looks_ahead, require_a_way_ahead, trainable
from entrometer.training.trainer import Trainer

logger = logging.getLogger(__name__)


def train(config: TrainConfig, run: Path, *, progress: Progress | None = None) -> None:
    """Train, or go on with what was begun in `run` under the same config.

    What is finished is not done again: imitation has a complete directory of its own,
    and Dr-GRPO goes on from the newest complete checkpoint. Killed anywhere and called
    again, it leaves the same bits as a run that was never stopped.
    """
    if (run / "config.json").is_file():
        _require_same(read_config(run), as_saved(config, run), run)
    if config.predict_every and sharded():
        raise InvalidValue(
            "expected predict_every=0 where a process has a part of the model alone "
            f"(FSDP, DeepSpeed), got predict_every={config.predict_every}; set it to "
            "0, or train with data parallelism"
        )
    trackers(config.report_to)
    intervention = trainable(config.intervention)
    if looks_ahead(intervention, config.micro_batch):
        require_a_way_ahead(intervention, fsdp=fsdp(), deepspeed=deepspeed())
    chosen = task(config.task, **config.task_settings())
    # One process of a training works on the files; the others are its own.
    alone = hold(run) if processes().is_main_process else nullcontext()
    with alone, without_bars():
        _settle(config, run, chosen)
        start = _start(config, chosen, run, progress)
        trainer = make_trainer(config, chosen, start, run, progress)
        trainer.train(resume_from_checkpoint=_where_it_stopped(run))


def _require_same(saved: TrainConfig, config: TrainConfig, run: Path) -> None:
    """Refuse other settings than a run has; it may have more steps to take."""
    longer = replace(saved, steps=max(saved.steps, config.steps))
    found = difference(as_json(asdict(longer)), as_json(asdict(config)))
    if found is not None:
        raise InvalidValue(
            f"expected a new directory, got {run} with a run of another config: "
            f"{found}; choose another name, or resume that run"
        )


def _where_it_stopped(run: Path) -> str | None:
    """The newest complete checkpoint; None for a run that has not begun."""
    newest, refused = newest_complete(run)
    for error in refused:
        logger.warning("%s", error)
    if newest is None and checkpoints(run):
        raise InvalidValue(
            f"expected a complete checkpoint in {run}, got only damaged ones: "
            f"{refused[0]}. Restore one, or start anew in another directory"
        )
    return None if newest is None else str(newest)


def prolong(run: Path, additional_steps: int = 0) -> TrainConfig:
    """The config of a run, with more steps to take."""
    if additional_steps < 0:
        raise InvalidValue(
            f"expected additional steps from 0, got {additional_steps}; give how many "
            "more there should be"
        )
    config = read_config(run)
    return replace(config, steps=config.steps + additional_steps)


def _settle(config: TrainConfig, run: Path, task: Task) -> None:
    """Let one process write the config, after all have read what was there before."""
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
    """Content key of the problems to train on, and of those that predictions ask."""
    problems = list(task.problems(Split.TRAIN, config.problems))
    if config.predict_every:
        problems += task.problems(Split.TEST, config.predict_prompts)
    return problems_key(task, problems)


def _start(
    config: TrainConfig, task: Task, run: Path, progress: Progress | None
) -> Policy:
    """The policy that Dr-GRPO begins with."""
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
    policy = load_policy(config.policy)
    if config.adapter is None:
        return policy
    return add_adapter(
        policy,
        rank=config.adapter.rank,
        alpha=config.adapter.alpha,
        modules=config.adapter.modules,
        seed=config.seed,
    )


def make_trainer(
    config: TrainConfig,
    task: Task,
    policy: Policy,
    run: Path,
    progress: Progress | None = None,
) -> Trainer:
    """The trainer of a run, with its instruments."""
    problems = task.problems(Split.TRAIN, config.problems)
    trainer = Trainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=_arguments(config, run),
        train_dataset=prompt_table(task, problems),
        reward_funcs=list(reward_functions(task, problems)),
        instruments=_instruments(config, task, policy),
        base=config.policy,
        intervention=config.intervention,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ShowProgress("Dr-GRPO", progress))
    return trainer


def _instruments(config: TrainConfig, task: Task, policy: Policy) -> list[Instrument]:
    instruments: list[Instrument] = [Recorder(), Entropy(), EffectiveSampleSize()]
    if config.prompts * config.responses > config.micro_batch and not sharded():
        # Noise is told from signal by two batch sizes, on whole gradients.
        instruments.append(NoiseScale())
    if config.predict_every:
        held_out = task.problems(Split.TEST, config.predict_prompts)
        tokens = [policy.tokenizer(task.prompt(p))["input_ids"] for p in held_out]
        instruments.append(
            PredictedChange(
                every=config.predict_every, prompts=tokens, seed=config.seed
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
    beta1, beta2 = config.betas
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
        adam_beta1=beta1,
        adam_beta2=beta2,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        temperature=config.temperature,
        max_completion_length=config.max_tokens,
        reward_weights=[1.0, config.format_weight],
        logging_steps=1,
        save_steps=config.save_every,
        report_to=trackers(config.report_to),
        # Trackers show it; the folders above are nobody else's concern.
        run_name=run.resolve().name,
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        bf16=False,
        use_cpu=on_cpu(),
        gradient_checkpointing=False,
        seed=config.seed,
    )
