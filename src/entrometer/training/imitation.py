"""Supervised fine-tuning on demonstrations, to teach a policy the format of a task."""

from pathlib import Path
from random import Random
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from entrometer.errors import InvalidValue
from entrometer.policy import Policy
from entrometer.runs import apply_umask, publish, seal
from entrometer.runs.atomic import naming_full_disk
from entrometer.tasks import Problem, Task, TaskWithTool
from entrometer.tasks.tool import pieces
from entrometer.training.checkpoint_files import refer_to_base
from entrometer.training.config import TrainConfig
from entrometer.training.processes import FsdpTrainer, processes, shared_arguments
from entrometer.training.trackers import Progress, ShowProgress


class ImitationTrainer(FsdpTrainer, SFTTrainer):  # type: ignore[misc]
    """TRL's `SFTTrainer` with FSDP on CPUs too, and without telemetry."""


def imitate(
    policy: Policy,
    task: Task,
    problems: list[Problem],
    config: TrainConfig,
    directory: Path,
    progress: Progress | None = None,
) -> None:
    """Train on demonstrations; save in `directory`, complete or not at all."""
    settings = config.imitation
    count = processes().num_processes
    if settings.batch % count:
        raise InvalidValue(
            f"expected an imitation batch that is a multiple of {count} processes, got "
            f"batch={settings.batch}; change it"
        )
    stage = directory.with_name(f".{directory.name}")
    trainer = ImitationTrainer(
        model=policy.model,
        args=SFTConfig(
            output_dir=str(stage),
            max_steps=settings.steps,
            per_device_train_batch_size=settings.batch // count,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=settings.warmup,
            save_strategy="no",
            completion_only_loss=True,
            shuffle_dataset=False,
            report_to="none",
            **shared_arguments(config.seed),
        ),
        train_dataset=_demonstrations(task, problems, config, policy.tokenizer),
        processing_class=policy.tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ShowProgress("imitation", progress))
    trainer.train()
    with naming_full_disk(stage):
        # Written under a hidden name, sealed and then renamed: a directory with its
        # final name is complete, wherever the process is killed.
        trainer.save_model(str(stage))
        if processes().is_main_process:
            # A pickle, which nothing here ever opens.
            (stage / "training_args.bin").unlink(missing_ok=True)
            refer_to_base(stage, config.policy, destination=directory)
            apply_umask(stage)
            seal(stage)
            publish(stage, directory)
    processes().wait_for_everyone()


def _demonstrations(
    task: Task, problems: list[Problem], config: TrainConfig, tokenizer: Any
) -> Any:
    random = Random(config.seed)
    count = config.imitation.steps * config.imitation.batch
    chosen = [random.choice(problems) for _ in range(count)]
    prompts = [task.prompt(problem) for problem in chosen]
    answers = [task.demonstration(problem, random) for problem in chosen]
    if isinstance(task, TaskWithTool):
        rows = zip(chosen, prompts, answers, strict=True)
        return Dataset.from_list([_tokenized(task, *row, tokenizer) for row in rows])
    return Dataset.from_dict({"prompt": prompts, "completion": answers})


def _tokenized(
    task: Task, problem: Problem, prompt: str, answer: str, tokenizer: Any
) -> dict[str, list[int]]:
    """Return token ids, and which of them are the policy's to learn.

    A tool's replies are tokenized apart, as in sampling, and not imitated: the policy
    will never write them.
    """
    ids = list(tokenizer(prompt)["input_ids"])
    mask = [0] * len(ids)
    for text, written in pieces(task, problem, answer):
        part = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += part
        mask += [int(written)] * len(part)
    # TRL ends the demonstrations that it tokenizes likewise.
    return {
        "input_ids": [*ids, tokenizer.eos_token_id],
        "completion_mask": [*mask, 1],
    }
