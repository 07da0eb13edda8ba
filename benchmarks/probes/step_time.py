"""Time of a trainer's step: bare, watched, and with a prediction beside it."""

import gc
import time
import warnings
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, TrainerCallback

from benchmarks.real_policy import smollm2

PROMPTS = 4
RESPONSES = 4
LENGTH = 48
HELD_OUT = 16
WARM_UP = 1
ROUNDS = 6


def step_times() -> tuple[float, dict[str, Any]]:
    """Median ratio of a watched step to a bare one beside it, and the times.

    The two take turns, and the first of a round is the second of the next. Every
    response has the same length, so that all steps do the same work.
    """
    import entrometer as em
    from entrometer.training.probes import PredictedChange

    torch.set_num_threads(2)
    with TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(directory)
        bare = make_trainer(folder / "bare")
        watched = em.watch(make_trainer(folder / "watched"), predict_every=0)
        for trainer in (bare, watched):
            keep_time(trainer)
        pairs = []
        for i in range(WARM_UP + ROUNDS):
            order = (bare, watched) if i % 2 else (watched, bare)
            taken = {id(trainer): seconds(trainer) for trainer in order}
            pairs.append((taken[id(bare)], taken[id(watched)]))
        pairs = pairs[WARM_UP:]
        ratios = [with_it / without for without, with_it in pairs]
        prompts = [
            watched.processing_class(text)["input_ids"]
            for text in questions(watched.processing_class, HELD_OUT, seed=1)
        ]
        watched.instruments += (PredictedChange(every=1, prompts=prompts),)
        predicting = seconds(watched)
    bare_step, watched_step = (median(column) for column in zip(*pairs, strict=True))
    price = predicting - watched_step
    return median(ratios), {
        "threads": torch.get_num_threads(),
        "responses": PROMPTS * RESPONSES,
        "tokens_a_response": LENGTH,
        "step_seconds.bare": round(bare_step, 3),
        "step_seconds.watched": round(watched_step, 3),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "predicted_change.prompts": HELD_OUT,
        "predicted_change.seconds": round(price, 3),
        "predicted_change.over_bare_step": round(price / bare_step, 3),
    }


class Stopwatch(TrainerCallback):
    """Seconds of a step, sampling and instruments included."""

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.start = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds = time.perf_counter() - self.start


def seconds(trainer: Any) -> float:
    gc.collect()
    trainer.train()
    taken: float = trainer.stopwatch.seconds
    return taken


def make_trainer(directory: Path) -> Any:
    """TRL's own trainer for one step."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    policy = smollm2()
    trainer: Any = GRPOTrainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=GRPOConfig(
            output_dir=str(directory),
            max_steps=1,
            learning_rate=1e-6,
            per_device_train_batch_size=RESPONSES,
            gradient_accumulation_steps=PROMPTS,
            num_generations=RESPONSES,
            max_completion_length=LENGTH,
            generation_kwargs={"min_new_tokens": LENGTH},
            loss_type="dr_grpo",
            scale_rewards="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(
            {"prompt": questions(policy.tokenizer, PROMPTS, seed=0)}
        ),
        reward_funcs=digits,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def keep_time(trainer: Any) -> None:
    """Add a stopwatch, last: it stops when the instruments have done their part."""
    trainer.stopwatch = Stopwatch()
    trainer.add_callback(trainer.stopwatch)


def questions(tokenizer: Any, count: int, *, seed: int) -> list[str]:
    """Small sums, in the model's chat template."""
    rng = np.random.default_rng(seed)
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": f"What is {' + '.join(map(str, numbers))}?"}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for numbers in rng.integers(2, 60, size=(count, 3))
    ]


def digits(completions: list[str], **_: object) -> list[float]:
    return [float(sum(c.isdigit() for c in completion)) for completion in completions]
