"""A checkpoint with AdamW's moments that no training has made."""

import json
from pathlib import Path
from typing import Any

import torch

from entrometer.policy import Policy
from entrometer.policy.optimizer_state import decay_groups


def write_untrained_checkpoint(policy: Policy, folder: Path) -> int:
    """Write a policy, and random moments of its trained parameters.

    Returns the number of these.
    """
    generator = torch.Generator().manual_seed(0)
    model: Any = policy.model
    model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    groups = [[parameters[n] for n in names] for names in decay_groups(model)]
    optimizer = torch.optim.AdamW(
        [{"params": own, "weight_decay": 0.0} for own in groups], lr=1e-6
    )
    for p in parameters.values():
        optimizer.state[p] = {
            "step": torch.tensor(1.0),
            "exp_avg": 1e-3 * torch.randn(p.shape, generator=generator),
            "exp_avg_sq": 1e-6 * torch.rand(p.shape, generator=generator),
        }
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    trainer = {"global_step": 1, "max_steps": 10}
    (folder / "trainer_state.json").write_text(json.dumps(trainer))
    return sum(p.numel() for p in parameters.values())
