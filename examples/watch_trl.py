"""A stock TRL training with a reward of its own, watched in one line.

python examples/watch_trl.py out            # all parameters; --lora for an adapter
entrometer diagnose out/checkpoint-5        # what drains entropy, what would help
"""

import sys
from pathlib import Path

from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

import entrometer as em
from entrometer.policy import save_tiny

lora = "--lora" in sys.argv
arguments = [a for a in sys.argv[1:] if a != "--lora"]
out = Path(arguments[0] if arguments else "runs/watched")
model = save_tiny(out / "model")  # any model with a chat template or plain prompts

PROMPTS = [f"{a}+{b}=" for a in range(5) for b in range(4)]


def few_digits(completions: list[str], **_: object) -> list[float]:
    """Reward of a response: digits are good, up to four."""
    return [min(4, sum(map(str.isdigit, text))) / 4 for text in completions]


trainer = GRPOTrainer(
    model=str(model),
    reward_funcs=few_digits,
    train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
    peft_config=LoraConfig(target_modules="all-linear") if lora else None,
    args=GRPOConfig(
        output_dir=str(out),
        max_steps=6,
        save_steps=1,
        logging_steps=1,
        disable_tqdm=True,
        learning_rate=3e-4,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=4,
        num_generations=4,
        max_completion_length=16,
        bf16=False,
        use_cpu=True,
        report_to="none",
    ),
)
em.watch(trainer, predict_every=2)
trainer.train()

print("recorded:", *sorted(path.name for path in (out / "updates").iterdir()))
for log in trainer.state.log_history:
    if "predicted_change/predicted" in log:
        print(
            f"step {log['step']}: entropy {log['entropy/token']:.3f} nats per token; "
            f"the update changes it by {log['predicted_change/predicted']:+.4f}, "
            f"momentum alone by {log['predicted_change/momentum']:+.4f}"
        )
