"""The loss of a verl actor is rebuilt from what `em.watch_verl` recorded.

verl runs in processes of its own, because it brings a package named `tests`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.importers.frameworks import site

HERE = Path(__file__).parent
RANK = 4
"""Of an adapter."""

CASES: dict[str, dict[str, Any]] = {
    "token-mean": {},
    "token-mean, FSDP1": {"strategy": "fsdp"},
    "seq-mean-token-mean, entropy bonus": {
        "actor": {"loss_agg_mode": "seq-mean-token-mean", "entropy_coeff": 0.05},
        "clip_grad": 1e-3,
    },
    "KL loss, responses without padding": {
        "actor": {"use_kl_loss": True, "kl_loss_coef": 0.1},
        "nested": True,
    },
    "packed sequences, micro-batches by tokens": {
        "packed": True,
        "dynamic": 128,
        "actor": {"loss_agg_mode": "seq-mean-token-sum", "calculate_entropy": True},
    },
    "clip higher, two epochs of two mini-batches": {
        "actor": {
            "clip_ratio_low": 1e-3,
            "clip_ratio_high": 2e-3,
            "ppo_epochs": 2,
            "shuffle": True,
        },
        "mini": 8,
        "updates": 1,
    },
    "clip-cov, two epochs": {
        "policy_loss": {"loss_mode": "clip_cov", "clip_cov_ratio": 0.2},
        "actor": {"loss_agg_mode": "seq-mean-token-sum-norm", "ppo_epochs": 2},
    },
    "gspo, two epochs": {
        "policy_loss": {"loss_mode": "gspo"},
        "actor": {"loss_agg_mode": "seq-mean-token-mean", "ppo_epochs": 2},
    },
    "adapter, two mini-batches": {"adapter": True, "mini": 8},
}
"""Settings over those of `verl_actor`."""


def compare(case: dict[str, Any], *, processes: int = 1) -> list[tuple[float, float]]:
    """Return the relative differences of gradient and step, for each step."""
    from benchmarks.losses.difference import step_apart
    from entrometer.importers import read_foreign, write_checkpoint
    from entrometer.policy import load_checkpoint, save_tiny

    with TemporaryDirectory() as directory:
        out = Path(directory)
        base = save_tiny(out / "base")
        if case.get("adapter"):
            case = case | {
                "model": {"lora_rank": RANK, "lora_adapter_path": adapter(out)}
            }
        truth = train(case, out, processes=processes)
        differences = []
        # Before the first step, a checkpoint of verl has no moments.
        for step in range(2, len(truth) + 1):
            imported = out / f"checkpoint-{step - 1}"
            foreign = read_foreign(out / f"global_step_{step - 1}", base=str(base))
            write_checkpoint(foreign, imported)
            checkpoint = load_checkpoint(imported, base=str(base))
            differences.append(step_apart(out, step, checkpoint, truth[step - 1]))
    return differences


def adapter(out: Path) -> str:
    """Save an adapter to start from, whose matrices are not zero; return its path."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = LoraConfig(
        r=RANK,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        init_lora_weights=False,
    )
    base = AutoModelForCausalLM.from_pretrained(out / "base", dtype=torch.float32)
    get_peft_model(base, config).save_pretrained(str(out / "adapter"))
    return str(out / "adapter")


def train(
    case: dict[str, Any], out: Path, *, processes: int = 1
) -> list[dict[str, Any]]:
    """Train the policy in `out/base` by verl; return what its actor did at each step.

    Raises `subprocess.CalledProcessError` with the errors of a process that failed.
    """
    program = [sys.executable, "-W", "ignore", str(HERE / "verl_actor.py")]
    arguments = [str(site("verl")), json.dumps(case), str(out / "base"), str(out)]
    running = [
        subprocess.Popen(
            [*program, *arguments, str(rank), str(processes)],
            # The run of the plugin, which has no other way to learn it.
            env={**os.environ, "OMP_NUM_THREADS": "1", "ENTROMETER_RUN": str(out)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    errors = [process.communicate()[1] for process in running]
    for process, error in zip(running, errors, strict=True):
        if process.returncode:
            raise subprocess.CalledProcessError(
                process.returncode, process.args, stderr=error[-4000:]
            )
    steps: list[dict[str, Any]] = torch.load(out / "truth.pt", weights_only=True)
    return steps


REFUSED: dict[str, dict[str, Any]] = {
    "the loss distillation_ppo_loss": {"distillation": True},
    "the optimizer RAdam": {"optimizer": "RAdam"},
    "dropout of 0.1": {"config": {"attention_dropout": 0.1}},
}
"""Settings that cannot be recorded, by what the refusal names."""


def accepted() -> int:
    """Return how many settings that cannot be recorded are not refused by name."""
    return sum(name not in refusal(case) for name, case in REFUSED.items())


def refusal(case: dict[str, Any]) -> str:
    """Return the error when verl is watched, or when what it recorded is used."""
    from entrometer.errors import InvalidValue
    from entrometer.policy import save_tiny
    from entrometer.runs import read_update, update_path
    from entrometer.runs.updates import require_usable

    with TemporaryDirectory() as directory:
        out = Path(directory)
        save_tiny(out / "base")
        path = update_path(out, 1)
        try:
            train(case | {"updates": 1}, out)
            require_usable(path, read_update(path))
        except subprocess.CalledProcessError as error:
            last: str = error.stderr.strip().splitlines()[-1]
            return last if "InvalidValue" in last else ""
        except InvalidValue as error:
            return str(error)
    return ""
