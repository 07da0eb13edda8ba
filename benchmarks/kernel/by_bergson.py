"""The kernel by bergson: its collector in memory without projection, then a product."""

from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

from benchmarks.kernel.padded import labelled
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


def gram(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    from bergson import (  # type: ignore[import-not-found]
        CollectorComputer,
        GradientProcessor,
        IndexConfig,
        InMemoryCollector,
    )
    from datasets import Dataset

    model: Any = policy.model
    ids: list[list[int]] = [[]] * rollouts.count
    labels: list[list[int]] = [[]] * rollouts.count
    batches = []
    total = [len(p) for p in rollouts.prompt_tokens] + rollouts.length
    for rows, ids_BT, labels_BT in labelled(rollouts):
        batches.append(rows)
        for row, x_T, y_T in zip(rows, ids_BT, labels_BT, strict=True):
            ids[row] = x_T[: total[row]].tolist()
            labels[row] = y_T[: total[row]].tolist()
    data = Dataset.from_dict({"input_ids": ids, "labels": labels})
    cfg = IndexConfig(run_path=mkdtemp(), loss_reduction="sum", projection_dim=0)
    cfg.partial_run_path.mkdir(parents=True, exist_ok=True)
    targets = {
        name
        for name, _ in model.base_model.named_modules()
        if name.endswith((".lora_A.default", ".lora_B.default"))
    }
    collector = InMemoryCollector(
        model=model.base_model,
        cfg=cfg,
        processor=GradientProcessor(projection_dim=None),
        target_modules=targets,
        data=data,
    )
    computer = CollectorComputer(
        model=model, data=data, collector=collector, batches=batches, cfg=cfg
    )
    computer.run_with_collector_hooks(desc="rows")
    rows_ND = torch.from_numpy(collector.builder.grad_buffer)
    return (rows_ND @ rows_ND.T).numpy()
