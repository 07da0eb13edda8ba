"""One small training, on as many processes as it is started with, and its figures.

The responses are drawn from the prompts and the step alone, so that it is the same
training on any number of processes.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from entrometer.policy import tiny_policy
from entrometer.training.instruments import Instrument, Instrumented
from entrometer.training.probes import (
    EffectiveSampleSize,
    Entropy,
    NoiseScale,
    PredictedChange,
)
from entrometer.training.sampling import OwnRollouts

STEPS = 3
GROUPS = 4
RESPONSES = 3
LENGTH = 12
HELD_OUT = [[11, 12, 13], [14, 15], [16, 17, 18, 19], [20], [21, 22]]
PROMPTS = ["1+1=", "20*3=", "9-4=", "7", "12+30=", "8/2=", "3*3*3=", "5-"]


def figures(processes: int) -> dict[str, np.ndarray]:
    """What each step logged, and its gradient, of a training on that many processes."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "figures.safetensors"
        launch = ["torch.distributed.run", "--standalone", "--nproc-per-node"]
        alone = [__file__, str(path)]
        several = ["-m", *launch, str(processes), *alone]
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "TRL_EXPERIMENTAL_SILENCE": "1",
        }
        done = subprocess.run(
            [sys.executable, *(alone if processes == 1 else several)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{processes} processes failed:\n{done.stderr}")
        return dict(load_file(path))


class DrawnFromThePrompt(OwnRollouts):
    """Sampling without a tool: the prediction of a change assumes no replies."""

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Return random tokens by the prompt, the place in its group and the step.

        Of two kinds, so that the groups have a signal in common.
        """
        completions = []
        for i, prompt in enumerate(prompts):
            key = (PROMPTS.index(prompt), i % RESPONSES, trainer.state.global_step)
            rng = np.random.default_rng(key)
            length = int(rng.integers(4, LENGTH + 1))
            completions.append(rng.integers(11, 13, size=length).tolist())
        tokenizer = trainer.processing_class
        return {
            "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": completions,
            "logprobs": None,
        }


class Gradients(Instrument):
    """The gradient of each update, as one row."""

    def __init__(self) -> None:
        """Start with none."""
        self.rows: list[torch.Tensor] = []

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Copy it."""
        grads = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        self.rows.append(torch.cat([g.flatten() for g in grads]))
        return {}


def main(path: Path) -> None:
    """Train, and let one process write the figures."""
    warnings.simplefilter("ignore")
    gradients, noise = Gradients(), NoiseScale()
    trainer = make_trainer(path.parent, gradients, noise)
    trainer.train()
    if trainer.accelerator.is_main_process:
        logs = [log for log in trainer.state.log_history if "loss" in log]
        names = {name for log in logs for name in log if name.startswith(LOGGED)}
        # A value that is not there yet, such as an average of one step, is NaN.
        columns = {
            name: np.array([log.get(name) for log in logs], float) for name in names
        }
        columns["squared_norms"] = np.array(noise.state()["kept"])
        columns["gradient"] = torch.stack(gradients.rows).numpy()
        save_file(columns, path)


LOGGED = ("effective_samples/", "entropy/", "noise_scale/", "predicted_change/")


def make_trainer(directory: Path, *instruments: Instrument) -> Any:
    """Micro-batches of one group each; as many an update on any number of processes."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    class Trainer(Instrumented, GRPOTrainer):  # type: ignore[misc]
        pass

    policy = tiny_policy(lora_rank=4, lora_std=0.05)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return Trainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=GRPOConfig(
            output_dir=str(directory),
            max_steps=STEPS,
            learning_rate=1e-2,
            # Adam would make a step of the rounding of a gradient that is 0.
            optim="sgd",
            per_device_train_batch_size=RESPONSES,
            gradient_accumulation_steps=GROUPS // processes,
            num_generations=RESPONSES,
            max_completion_length=LENGTH,
            loss_type="dr_grpo",
            scale_rewards="none",
            logging_steps=1,
            save_strategy="no",
            use_cpu=True,
            ddp_backend="gloo" if processes > 1 else None,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        reward_funcs=mean_token,
        rollout_func=DrawnFromThePrompt(),
        instruments=[
            Entropy(),
            EffectiveSampleSize(),
            PredictedChange(every=2, prompts=HELD_OUT),
            *instruments,
        ],
    )


def mean_token(completion_ids: list[list[int]], **_: object) -> list[float]:
    """A reward that tells responses apart."""
    return [float(np.mean(ids)) for ids in completion_ids]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
