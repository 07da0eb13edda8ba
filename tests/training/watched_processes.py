"""A stock TRL training that is watched, on as many processes as it is started with."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.training.toy import PROMPTS, letters, quietly

ROOT = Path(__file__).parents[2]
LAUNCHERS = {
    "ddp": ("torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    "fsdp": (
        "accelerate.commands.launch",
        f"--config_file={ROOT / 'examples' / 'accelerate_fsdp.yaml'}",
        "--main_process_port=0",
    ),
}
RESPONSES = 16
"""Responses of an update, over all processes."""


def watched(out: Path, launcher: str) -> None:
    """Train two steps; the model is in `out/model`."""
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *LAUNCHERS[launcher], __file__, str(out)],
        env=os.environ | quiet | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def main(out: str) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    import entrometer as em

    torch.set_num_threads(1)
    args = GRPOConfig(
        output_dir=out,
        max_steps=2,
        save_steps=1,
        logging_steps=1,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        # AdamW gets the gradient as it is, which the test compares.
        max_grad_norm=0.0,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=4,
        max_completion_length=6,
        bf16=False,
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=str(Path(out) / "model"),
        reward_funcs=letters,
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        args=args,
    )
    with quietly():
        em.watch(trainer, predict_every=0).train()


if __name__ == "__main__":
    main(sys.argv[1])
